"""Whether an executor's memory stays where it is: its resident size after each tenth of many runs.

One executor process serves no-op handlers and, one in thirty, commands, every other one with output that is kept. The
size is read when the outcomes of a tenth are all in the log. What it remembers on purpose (the last 10,000 attempts) is
there after two tenths, so growth is counted from there. Prints one JSON line.

    python -m bench.executor_memory [RUNS]
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.accounting import resident_mb, tree
from bench.process_spawn import start_executor, stop_executor
from bench.servers import embedded_nats
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.core.runtime.settings import Settings
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import Outcome, RunSucceeded
from waterclock.proto.spec import Handler, JobSpec, Shell
from waterclock.proto.work import WorkItem

TENTHS = 10
COMMANDS = 30
"""One run in so many is a command."""
CHUNK = 500
ROUTE = names.route_of("default", "noop")
NOOP = JobSpec(name="noop", task=Handler(handler="noop"), payload={"text": "x" * 180})
SILENT = JobSpec(name="true", task=Shell(command="true"))
SAYING = JobSpec(name="echo", task=Shell(command="echo one line; echo '{\"done\": 1}'"))


def message(number: int) -> Message:
    now = time.time_ns() // 1000
    run_id = f"bench{number}@now-1"
    commands, odd = divmod(number, COMMANDS)
    spec, route = (NOOP, ROUTE) if odd else ((SILENT, SAYING)[commands % 2], "default")
    item = WorkItem(
        run_id=run_id, job_id=f"bench{number}", version=1, spec=spec, scheduled=now, due=now, queued=now
    )
    return Message(subject=names.work_subject(route, "light", "0", run_id, now), data=encode(item))


class Ends:
    """Counts the outcomes in the log."""

    def __init__(self, pull: Pull) -> None:
        self._pull = pull
        self.count = 0

    async def reach(self, count: int) -> None:
        while self.count < count:
            for delivery in await self._pull.next():
                for event in decode_frame(delivery.data).events:
                    if isinstance(event, Outcome):
                        assert isinstance(event, RunSucceeded), event
                        self.count += 1


async def measure(url: str, data: Path, runs: int) -> dict[str, Any]:
    settings = Settings(
        nats_url=url, data=data, tier="light", slots=32, worker=("bench.worker:worker",), log_level="warning"
    )
    async with Connection.open(url, name="bench") as connection:
        await ensure_streams(connection, Layout())
        await ensure_work_consumers(connection, [("default", "light", "0"), (ROUTE, "light", "0")])
        source = Pull.ordered(connection, names.RUNS, [names.runs_subject()], after_sequence=0)
        executor = start_executor(settings)
        try:
            async with source as pull:
                began = time.perf_counter()
                sizes, wardens = await run_all(Publisher(connection), Ends(pull), executor.pid, runs)
                seconds = time.perf_counter() - began
        finally:
            cpu = stop_executor(executor)
    return {
        "bench": "executor_memory",
        "runs": runs,
        "commands": -(-runs // COMMANDS),
        "rate": round(runs / seconds),
        "cpu_ms_per_job": round(cpu * 1000 / runs, 4),
        "executor_mb": " ".join(f"{size:.1f}" for size in sizes),
        "warden_mb": " ".join(f"{size:.1f}" for size in wardens),
        "growth_mb": round(max(sizes) - sizes[1], 1),
        "growth_bytes_per_run": round((sizes[-1] - sizes[1]) * 1e6 / (runs * (TENTHS - 2) / TENTHS)),
    }


async def run_all(
    publisher: Publisher, ends: Ends, executor: int, runs: int
) -> tuple[list[float], list[float]]:
    """The sizes of the executor and of its warden after each tenth."""
    sizes, wardens = [], []
    for tenth in range(TENTHS):
        last = runs * (tenth + 1) // TENTHS
        for start in range(runs * tenth // TENTHS, last, CHUNK):
            await publisher.publish_work([message(n) for n in range(start, min(start + CHUNK, last))])
            await ends.reach(start - 4 * CHUNK)
        await ends.reach(last)
        sizes.append(resident_mb(executor))
        wardens.append(resident_mb(tree(executor)[1]))
    return sizes, wardens


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with embedded_nats() as (url, directory):
        print(json.dumps(asyncio.run(measure(url, directory, runs))))


if __name__ == "__main__":
    main()
