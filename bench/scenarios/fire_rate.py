"""How many stored one-shots fire a second, through execution into Postgres, for a minute.

A burst first tells what the machine holds; then that rate is offered for the whole time. What counts is what is in
Postgres when the last job has been due, so a system that falls behind does not get time to catch up.
"""

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

_AFTER = 1.0
"""Seconds from the last due time to the count: a run may take so long to be seen in Postgres."""


async def fire_rate(plan: Plan) -> AsyncGenerator[Result, None]:
    seconds = plan.choose(60, quick=10) if not plan.smoke else 2
    async with running_system() as system:
        await warm_up(system)
        burst, stored = await _burst(system, plan.count(60_000, quick=20_000))
        yield Result(name="fire_rate/burst", figures={"rate": round(burst), "stored_rate": round(stored)})
        rate = plan.rate or max(100, round(burst, -2))
        yield await _sustained(system, int(rate), seconds, stored)


async def _burst(system: System, count: int) -> tuple[float, float]:
    """Runs a second of a crowd due at one instant, and jobs stored a second before that."""
    before = await system.history.succeeded()
    due = time.time() + count / 2500 + 2.0
    storing = await jobs.submit(system.clock, jobs.spread(count, due, 0.0))
    await asyncio.sleep(max(0.0, due - time.time()))
    await system.history.until_succeeded(before + count, within=120, poll=0.05)
    return count / (time.time() - due), count / storing


async def _sustained(system: System, rate: int, seconds: int, stored: float) -> Result:
    count = rate * seconds
    before = await system.history.succeeded()
    defined = await system.history.definitions()
    first = time.time() + 1.5 * count / stored + 5.0
    await jobs.submit(system.clock, jobs.spread(count, first, seconds))
    await system.history.until_defined(defined + count, within=first - time.time(), poll=1.0)
    spare = first - time.time()
    await asyncio.sleep(max(0.0, spare - 0.2))
    opening = system.account()
    await asyncio.sleep(max(0.0, first + seconds - time.time()))
    closing = system.account()
    await asyncio.sleep(_AFTER)
    done = await system.history.succeeded() - before
    took = seconds if done >= count else time.time() - first
    all_done = await system.history.until_succeeded(before + count, within=seconds + 60, poll=0.5) - before
    lags = await system.history.lags(datetime.fromtimestamp(first - 0.001, UTC))
    return Result(
        name="fire_rate",
        figures={
            "seconds": seconds,
            "offered_per_second": rate,
            "rate": round(done / took),
            "behind": count - done,
            "missing": count - all_done,
            "stored_with_s_to_spare": round(spare, 1),
            **lag_figures(lags),
            "nats_mb": system.memory_mb("nats"),
            "scheduler_mb": system.memory_mb("scheduler"),
        },
        cpu=accounting.per_thousand(opening, closing, max(done, 1)),
        curve=curve(lags),
    )
