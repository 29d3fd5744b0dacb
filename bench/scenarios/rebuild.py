"""The read models made anew from the log, while the live ones stay in use."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator

from bench import jobs
from bench.plan import Plan
from bench.result import Result
from bench.system import ROOT, running_system

_WITHIN = 300.0


async def rebuild(plan: Plan) -> AsyncGenerator[Result, None]:
    count = plan.count(100_000, quick=20_000)
    async with running_system() as system:
        await jobs.submit(system.clock, [jobs.immediate()] * count)
        await system.history.until_succeeded(count, within=180)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bench.rebuild_process",
            str(system.data),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await asyncio.wait_for(process.communicate(), _WITHIN)
        if process.returncode:
            raise RuntimeError(f"the rebuild ended with {process.returncode}")
        found = json.loads(said)
        kept = await system.history.succeeded()
    yield Result(
        name="rebuild",
        figures={
            "events": found["events"],
            "rate": round(found["events_per_second"]),
            "overall_rate": round(found["events"] / found["seconds"]),
            "seconds": round(found["seconds"], 2),
            "missing": count - kept,
        },
        cpu={"rebuild": round(found["cpu_seconds"] * 1000 / found["events"], 4)},
    )
