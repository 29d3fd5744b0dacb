"""How late runs start: at steady rates, and when thousands are due at one instant."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from bench import accounting, jobs
from bench.plan import Plan
from bench.quantiles import curve, lag_figures
from bench.result import Result
from bench.system import System, running_system
from bench.warm_up import warm_up

_STORE_RATE = 2500
"""Jobs a second that are surely stored; decides how far ahead the first one is due."""


async def start_lag(plan: Plan) -> AsyncGenerator[Result, None]:
    async with running_system() as system:
        await warm_up(system)
        for rate, seconds in ((50, 20), (100, 20), (1_000, 15), (5_000, 10)):
            count = plan.count(rate * seconds, quick=rate * min(seconds, 5))
            yield await measure(system, f"start_lag/{rate}_per_second", count, count / rate)
        for crowd in (5_000, 10_000):
            count = plan.count(crowd, quick=crowd)
            yield await measure(system, f"start_lag/{crowd}_at_once", count, 0.0)


async def measure(system: System, name: str, count: int, seconds: float) -> Result:
    """Store `count` jobs due evenly over so many seconds, all in the future; then see when they started."""
    before = await system.history.succeeded()
    defined = await system.history.definitions()
    first = time.time() + count / _STORE_RATE + 2.0
    await jobs.submit(system.clock, jobs.spread(count, first, seconds))
    await system.history.until_defined(defined + count, within=60)
    late = max(0.0, time.time() - first)
    await asyncio.sleep(max(0.0, first - time.time() - 0.2))
    opening = system.account()
    await asyncio.sleep(max(0.0, first + seconds - time.time()))
    done = await system.history.until_succeeded(before + count, within=60) - before
    cpu = accounting.per_thousand(opening, system.account(), count)
    since = datetime.fromtimestamp(first - 0.001, UTC)
    lags = await system.history.lags(since, datetime.fromtimestamp(first + seconds + 0.001, UTC))
    return Result(
        name=name,
        figures={
            "runs": done,
            "offered_per_second": round(count / seconds) if seconds else None,
            "missing": count - done,
            "stored_late_s": round(late, 2),
            **lag_figures(lags),
        },
        cpu=cpu,
        curve=curve(lags),
    )
