"""Commands (`/bin/true`) through the whole system, against a bare posix_spawn loop in the same run."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from bench import accounting, jobs
from bench.plan import Plan
from bench.result import Result
from bench.system import running_system


async def process_jobs(plan: Plan) -> AsyncGenerator[Result, None]:
    count = plan.count(4_000, quick=1_000)
    async with running_system() as system:
        command = {"name": "true", "command": ["/bin/true"], "schedule": "now"}
        await jobs.submit(system.clock, [command] * 50)
        await system.history.until_succeeded(50, within=30)
        bare = [await asyncio.to_thread(_bare, count // 2)]
        since = datetime.now(UTC)
        opening = system.account()
        await jobs.submit(system.clock, [command] * count)
        done = await system.history.until_succeeded(50 + count, within=120) - 50
        cpu = accounting.per_thousand(opening, system.account(), count)
        first, last = await system.history.span(since)
        bare.append(await asyncio.to_thread(_bare, count // 2))
    rate = done / (last - first)
    yield Result(
        name="process_jobs",
        figures={
            "jobs": done,
            "missing": count - done,
            "rate": round(rate),
            "posix_spawn_rate": round(max(bare)),
            "ratio": round(rate / max(bare), 2),
        },
        cpu=cpu,
    )


def _bare(count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {"PATH": "/bin"}), 0)
    return count / (time.perf_counter() - began)
