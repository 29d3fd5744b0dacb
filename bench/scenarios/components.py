"""Single components, measured by scripts of their own: each prints one JSON line, taken over as it is."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from bench.plan import Plan
from bench.result import Result
from bench.system import ROOT

_WITHIN = 180.0


async def executor_handlers(plan: Plan) -> AsyncGenerator[Result, None]:
    async for result in _script("executor_handlers", str(plan.count(40_000, quick=10_000))):
        yield result


async def process_spawn(plan: Plan) -> AsyncGenerator[Result, None]:
    async for result in _script("process_spawn", str(plan.count(1_000, quick=300))):
        yield result


async def executor_memory(plan: Plan) -> AsyncGenerator[Result, None]:
    async for result in _script("executor_memory", str(plan.count(100_000, quick=10_000))):
        yield result


async def workflows(plan: Plan) -> AsyncGenerator[Result, None]:
    async for result in _script("workflows", plan.choose("1", quick="4")):
        yield result


async def fan_out(plan: Plan) -> AsyncGenerator[Result, None]:
    async for result in _script("fan_out", str(plan.count(100_000, quick=20_000))):
        yield result


async def _script(name: str, *arguments: str) -> AsyncGenerator[Result, None]:
    script = ROOT / "bench" / f"{name}.py"
    if not script.exists():
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"bench.{name}", *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), _WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    lines = [line for line in said.splitlines() if line.startswith(b"{")]
    if process.returncode or not lines:
        raise RuntimeError(f"{script.name} ended with {process.returncode}")
    for line in lines:
        yield _taken_over(name, json.loads(line))


def _taken_over(script: str, found: dict[str, Any]) -> Result:
    name = found.pop("name", script)
    cpu = found.pop("cpu_ms_per_job", None)
    for known in ("bench", "machine"):
        found.pop(known, None)
    if "members_per_second" in found:
        found["rate"] = found.pop("members_per_second")
    elif "parts" in found:
        found["rate"] = round(found["parts"] / found["seconds"])
    return Result(
        name=name,
        figures={
            key: value if isinstance(value, int | float) else str(value) for key, value in found.items()
        },
        cpu={} if cpu is None else {"executor": cpu, "total": cpu},
    )
