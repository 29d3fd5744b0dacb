"""`python -m bench.fan_out [MEMBERS] [CONCURRENCY]`: one job that expands into many no-op members; one JSON line."""

import asyncio
import sys
import time

import msgspec

from bench.machine import machine
from bench.system import running_system
from waterclock.proto.answers import Run
from waterclock.proto.spec import FanOutRequest

_LOOK = 1.0


async def measure(members: int, concurrency: int) -> dict[str, object]:
    async with running_system() as home:
        rest = {part: home.memory_mb(part) for part in ("scheduler", "nats")}
        began = time.monotonic()
        job = await home.clock.jobs.create(
            name="fan",
            job_type="noop",
            fan_out=FanOutRequest(over={"range": members}, max_concurrency=concurrency),
        )
        peak = 0.0
        while True:
            run = (await home.clock.jobs.status(job.job_id)).latest_run
            peak = max(peak, home.memory_mb("scheduler"))
            if run is not None and run.end_time is not None:
                break
            await asyncio.sleep(_LOOK)
        seconds = _took(run, time.monotonic() - began)
        return {
            "name": "fan_out",
            "status": run.status,
            "output": run.output,
            "members": members,
            "max_concurrency": concurrency,
            "seconds": round(seconds, 2),
            "members_per_second": round(members / seconds),
            "scheduler_rss_mb": peak,
            "scheduler_rss_before_mb": rest["scheduler"],
            "nats_rss_mb": home.memory_mb("nats"),
            "machine": machine(),
        }


def _took(run: Run, watched: float) -> float:
    if run.start_time is None or run.end_time is None:
        return watched
    return (run.end_time - run.start_time).total_seconds()


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    result = asyncio.run(measure(*(numbers + [1_000_000, 2_000][len(numbers) :])))
    print(msgspec.json.encode(result).decode())
