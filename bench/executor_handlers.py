"""How many no-op handler jobs one worker process runs a second, and what a job costs it.

The queue is filled before the clock starts; the time is from the worker's first delivery to the last outcome in
the log, with the log synced on every ack. Prints one JSON line.

    python -m bench.executor_handlers [JOBS] [SLOTS]
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

from bench.servers import embedded_nats
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.executor import Context, Worker
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import RunSucceeded
from waterclock.proto.spec import Handler, JobSpec
from waterclock.proto.work import WorkItem

ROUTE = names.route_of("default", "noop")


async def fill(connection: Connection, jobs: int) -> None:
    await ensure_streams(connection, Layout())
    await ensure_work_consumers(connection, [(ROUTE, "light")])
    publisher = Publisher(connection)
    spec = JobSpec(name="noop", task=Handler(handler="noop"), payload={"text": "x" * 180})
    now = time.time_ns() // 1000
    for start in range(0, jobs, 1000):
        await publisher.publish_work([message(spec, n, now) for n in range(start, min(start + 1000, jobs))])


def message(spec: JobSpec, number: int, now: int) -> Message:
    run_id = f"bench{number}@now-1"
    item = WorkItem(
        run_id=run_id, job_id=f"bench{number}", version=1, spec=spec, scheduled=now, due=now, queued=now
    )
    return Message(subject=names.work_subject(ROUTE, "light", 0, run_id, now), data=encode(item))


async def measure(url: str, jobs: int, slots: int) -> dict[str, Any]:
    async with Connection.open(url, name="bench") as connection:
        await fill(connection, jobs)
        async with Pull.ordered(connection, names.RUNS, [names.runs_subject()], after_sequence=0) as pull:
            worker = start_worker(url, slots)
            first, ended = 0, 0
            while ended < jobs:
                for delivery in await pull.next():
                    for event in decode_frame(delivery.data).events:
                        if isinstance(event, RunSucceeded):
                            first = first or event.started
                            ended += 1
            seconds = (time.time_ns() // 1000 - first) / 1e6
            usage = stop_worker(worker)
    cpu = usage.ru_utime + usage.ru_stime
    return {
        "bench": "executor_handlers",
        "jobs": jobs,
        "slots": slots,
        "rate": round(jobs / seconds),
        "cpu_ms_per_job": round(cpu * 1000 / jobs, 4),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def start_worker(url: str, slots: int) -> "subprocess.Popen[bytes]":
    environ = {**os.environ, "WATERCLOCK_NATS_URL": url}
    return subprocess.Popen(
        [sys.executable, "-m", "bench.executor_handlers", "work", str(slots)], env=environ
    )


def stop_worker(worker: "subprocess.Popen[bytes]") -> resource.struct_rusage:
    worker.terminate()
    _, _, usage = os.wait4(worker.pid, 0)
    worker.returncode = 0
    return usage


def work(slots: int) -> None:
    worker = Worker(slots=slots)

    @worker.handler("noop")
    async def noop(context: Context, payload: Any) -> None:
        pass

    worker.run(log_level="warning", partitions=16)


def main() -> None:
    if sys.argv[1:2] == ["work"]:
        work(int(sys.argv[2]))
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    slots = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    with embedded_nats() as (url, _):
        print(json.dumps(asyncio.run(measure(url, jobs, slots))))


if __name__ == "__main__":
    main()
