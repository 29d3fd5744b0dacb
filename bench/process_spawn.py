"""How fast commands run, against a bare posix_spawn loop in the same run.

Three rates of `/bin/true` a second, interleaved so that all see the same machine: spawn and wait in a loop; the same
through the executor's warden; and as jobs, from the work queue through an executor to the log. Prints one JSON line.
How many run at a time matters as much as what each costs: with fewer slots there is less to gather.

    python -m bench.process_spawn [JOBS]
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.servers import embedded_nats
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.core.runtime.settings import Settings, as_environment
from waterclock.executor.warden.client import WardenClient
from waterclock.executor.warden.messages import Limits
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import RunSucceeded
from waterclock.proto.spec import Argv, JobSpec
from waterclock.proto.work import WorkItem

ROUNDS = 5
SLOTS = 16
EXECUTOR = (
    "from waterclock.core.runtime.lifecycle import run_service; from waterclock.core.runtime.settings import load;"
    "from waterclock.executor.service import run; raise SystemExit(run_service('executor', run, load({})))"
)


def bare(jobs: int) -> float:
    began = time.perf_counter()
    for _ in range(jobs):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {"PATH": "/bin"}), 0)
    return jobs / (time.perf_counter() - began)


async def through_warden(jobs: int) -> float:
    async with WardenClient.open() as processes:
        slots = asyncio.Semaphore(SLOTS)

        async def one() -> None:
            async with slots:
                directory = processes.directories.take()
                process = processes.start(
                    ["/bin/true"],
                    {"PATH": "/bin"},
                    directory=directory,
                    stdin=b"",
                    on_output=lambda _: None,
                    output_bytes=1,
                    limits=Limits(),
                )
                await process.ended
                assert processes.directories.take_back(directory)

        await one()
        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(jobs)))
        return jobs / (time.perf_counter() - began)


class Jobs:
    """An executor in a process of its own, with its queue filled round by round."""

    def __init__(self, connection: Connection, pull: Pull) -> None:
        self._publisher = Publisher(connection)
        self._pull = pull
        self._round = 0

    async def run(self, jobs: int) -> float:
        self._round += 1
        now = time.time_ns() // 1000
        await self._publisher.publish_work([self._message(n, now) for n in range(jobs)])
        ended, first, last = 0, 0, 0
        while ended < jobs:
            for delivery in await self._pull.next():
                for event in decode_frame(delivery.data).events:
                    if isinstance(event, RunSucceeded):
                        first, last = first or event.started, event.at
                        ended += 1
        return jobs / ((last - first) / 1e6)

    def _message(self, number: int, now: int) -> Message:
        run_id = f"bench{number}@now-{self._round}"
        item = WorkItem(
            run_id=run_id,
            job_id=f"bench{number}",
            version=1,
            spec=JobSpec(name="true", task=Argv(command=("/bin/true",))),
            scheduled=now,
            due=now,
            queued=now,
        )
        return Message(subject=names.work_subject("default", "light", "0", run_id, now), data=encode(item))


async def measure(url: str, data: Path, jobs: int) -> dict[str, Any]:
    settings = Settings(nats_url=url, data=data, tier="light", slots=SLOTS, log_level="warning")
    async with Connection.open(url, name="bench") as connection:
        await ensure_streams(connection, Layout())
        await ensure_work_consumers(connection, [("default", "light", "0")])
        source = Pull.ordered(connection, names.RUNS, [names.runs_subject()], after_sequence=0)
        executor = start_executor(settings)
        try:
            async with source as pull:
                through_queue = Jobs(connection, pull)
                await through_queue.run(10)
                rates: dict[str, list[float]] = {"bare": [], "warden": [], "jobs": []}
                for _ in range(ROUNDS):
                    rates["bare"].append(await asyncio.to_thread(bare, jobs))
                    rates["warden"].append(await through_warden(jobs))
                    rates["jobs"].append(await through_queue.run(jobs))
        finally:
            cpu = stop_executor(executor)
    best = {name: max(values) for name, values in rates.items()}
    return {
        "bench": "process_spawn",
        "jobs": jobs,
        "slots": SLOTS,
        "bare_rate": round(best["bare"]),
        "warden_rate": round(best["warden"]),
        "rate": round(best["jobs"]),
        "warden_to_bare": round(best["warden"] / best["bare"], 2),
        "ratio": round(best["jobs"] / best["bare"], 2),
        "rounds": " ".join(
            f"{ours / bare:.2f}" for bare, ours in zip(rates["bare"], rates["jobs"], strict=True)
        ),
        "cpu_ms_per_job": round(cpu * 1000 / (ROUNDS * jobs), 3),
    }


def start_executor(settings: Settings) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", EXECUTOR], env={**os.environ, **as_environment(settings)})


def stop_executor(executor: "subprocess.Popen[bytes]") -> float:
    """Seconds of CPU that it and everything it started have used."""
    executor.terminate()
    _, _, usage = os.wait4(executor.pid, 0)
    executor.returncode = 0
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with embedded_nats() as (url, directory):
        print(json.dumps(asyncio.run(measure(url, directory, jobs))))


if __name__ == "__main__":
    main()
