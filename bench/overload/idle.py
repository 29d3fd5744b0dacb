"""What a system costs in which nothing is defined."""

import asyncio
from collections.abc import AsyncGenerator

from bench.overload.peak import Peak
from bench.plan import Plan
from bench.result import Figure, Result
from bench.system import running_system

_SETTLED = 10.0
"""Seconds after the start, when all has been set up."""


async def idle(plan: Plan, _peak: Peak) -> AsyncGenerator[Result, None]:
    seconds = 3.0 if plan.smoke else plan.choose(30.0, quick=15.0)
    for partitions in (16, 64):
        async with running_system(WATERCLOCK_PARTITIONS=str(partitions)) as system:
            await asyncio.sleep(0.0 if plan.smoke else _SETTLED)
            before = system.account()
            await asyncio.sleep(seconds)
            after = system.account()
            shares: dict[str, Figure] = {
                f"{name}_percent": round((after[name] - before[name]) * 100 / seconds, 2)
                for name in system.processes
            }
            total = round(sum(share for share in shares.values() if isinstance(share, float)), 2)
            yield Result(
                name=f"overload/idle_{partitions}",
                figures={"partitions": partitions, "seconds": seconds, **shares, "total_percent": total},
            )
