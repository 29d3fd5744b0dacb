"""How many no-op handler jobs one worker process runs a second, and what a job costs it.

The queue is filled before the clock starts, unless a rate is given: then what is due is published every 20 ms, as the
scheduler does, and the worker turns as often as in the running system. The time is from the worker's first delivery to
the last outcome in the log, with the log synced on every ack. The CPU is what the worker took after its first frame, so
without its start. Prints one JSON line. Under load the scheduler packs about 20 attempts into a message.

    python -m bench.executor_handlers [JOBS] [SLOTS] [ATTEMPTS IN A MESSAGE] [async|sync] [JOBS A SECOND]
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bench.servers import embedded_nats
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.core.runtime.tasks import supervised
from waterclock.executor import Context, Worker
from waterclock.proto import names
from waterclock.proto.codec import decode_frame
from waterclock.proto.events import RunSucceeded
from waterclock.proto.spec import Handler, JobSpec
from waterclock.proto.work import WorkItem
from waterclock.scheduler.jetstream.work_queue import work_message
from waterclock.scheduler.ports import WorkMessage

ROUTE = names.route_of("default", "noop")
PARTITIONS = 16
_STROKE = 0.02


def messages_of(jobs: int, packed: int) -> list[Message]:
    spec = JobSpec(name="noop", task=Handler(handler="noop"), payload={"text": "x" * 180})
    now = time.time_ns() // 1000
    partitions: list[list[WorkItem]] = [[] for _ in range(PARTITIONS)]
    for number in range(jobs):
        item = work_item(spec, number, now)
        partitions[names.partition_of(item.run_id, PARTITIONS)].append(item)
    messages = [
        [
            work_message(WorkMessage(tuple(inside), inside[0].run_id if packed > 1 else ""))
            for start in range(0, len(items), packed)
            if (inside := items[start : start + packed])
        ]
        for items in partitions
    ]
    return [each for row in zip_longest(*messages) for each in row if each is not None]


async def publish(connection: Connection, messages: list[Message], a_second: float) -> None:
    """`a_second`: 0 for all at once."""
    publisher = Publisher(connection)
    at_once = max(1, round(a_second * _STROKE)) if a_second else 500
    begun = time.monotonic()
    for start in range(0, len(messages), at_once):
        if a_second:
            await asyncio.sleep(begun + start / a_second - time.monotonic())
        await publisher.publish_work(messages[start : start + at_once])


def work_item(spec: JobSpec, number: int, now: int) -> WorkItem:
    job_id = f"bench{number}"
    return WorkItem(
        run_id=f"{job_id}@now-1", job_id=job_id, version=1, spec=spec, scheduled=now, due=now, queued=now
    )


async def measure(url: str, jobs: int, slots: int, packed: int, kind: str, rate: int) -> dict[str, Any]:
    async with Connection.open(url, name="bench") as connection, supervised() as tasks:
        await ensure_streams(connection, Layout())
        await ensure_work_consumers(connection, [(ROUTE, "light", "0")])
        messages = messages_of(jobs, packed)
        if rate:
            tasks.spawn(publish(connection, messages, rate / packed), name="publish")
        else:
            await publish(connection, messages, 0)
        async with Pull.ordered(connection, names.RUNS, [names.runs_subject()], after_sequence=0) as pull:
            worker = start_worker(url, slots, kind)
            first, frames, ended, ended_before, cpu_before = 0, 0, 0, 0, 0.0
            while ended < jobs:
                for delivery in await pull.next():
                    frames += 1
                    for event in decode_frame(delivery.data).events:
                        if isinstance(event, RunSucceeded):
                            first = first or event.started
                            ended += 1
                if ended and not ended_before:
                    ended_before, cpu_before = ended, cpu_seconds(worker.pid)
            cpu = cpu_seconds(worker.pid) - cpu_before
            seconds = (time.time_ns() // 1000 - first) / 1e6
            usage = stop_worker(worker)
    return {
        "bench": "executor_handlers",
        "jobs": jobs,
        "slots": slots,
        "in_a_message": packed,
        "handler": kind,
        "rate": round(jobs / seconds),
        "cpu_ms_per_job": round(cpu * 1000 / max(1, jobs - ended_before), 4),
        "jobs_per_frame": round(jobs / frames),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def cpu_seconds(pid: int) -> float:
    """Of a process's main thread, which is where a worker spends it, until now."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def start_worker(url: str, slots: int, kind: str) -> "subprocess.Popen[bytes]":
    environ = {**os.environ, "WATERCLOCK_NATS_URL": url}
    return subprocess.Popen(
        [sys.executable, "-m", "bench.executor_handlers", "work", str(slots), kind], env=environ
    )


def stop_worker(worker: "subprocess.Popen[bytes]") -> resource.struct_rusage:
    worker.terminate()
    _, _, usage = os.wait4(worker.pid, 0)
    worker.returncode = 0
    return usage


def work(slots: int, kind: str) -> None:
    worker = Worker(slots=slots)

    async def asynchronous(context: Context, payload: Any) -> None:
        pass

    def synchronous(context: Context, payload: Any) -> None:
        pass

    worker.handler("noop", run_in="loop")(synchronous if kind == "sync" else asynchronous)
    worker.run(log_level="warning", partitions=PARTITIONS)


def main() -> None:
    if sys.argv[1:2] == ["work"]:
        work(int(sys.argv[2]), sys.argv[3])
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    slots = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    packed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    kind = sys.argv[4] if len(sys.argv) > 4 else "async"
    rate = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    with embedded_nats() as (url, _):
        print(json.dumps(asyncio.run(measure(url, jobs, slots, packed, kind, rate))))


if __name__ == "__main__":
    main()
