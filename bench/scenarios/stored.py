"""What stored schedules cost: lag of what is due, memory, disk, and the time until a killed scheduler is replaced, or
the killed server is back.

Two schedulers, as one has them for that; the killed one's partitions go to the other when its leases have run out. What
storing leaves to be done, vacuum above all, is waited for: how late runs are beside it is what `overload` measures.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from bench import accounting, jobs
from bench.plan import Plan
from bench.quantiles import curve, lag_figures
from bench.result import Result
from bench.system import System, running_system
from bench.warm_up import warm_up

_CHUNK = 20_000
_SLOWEST = 2_000
_PATIENCE = 60.0
"""Schedules that are not stored at this rate, after so many seconds of grace, are given up on."""
_PROBES = 500
"""Immediates sent after the last schedule: when they have run, every partition has read all before them."""
_RATE = 500
_SECONDS = 20
_KILL_RATE = 200
_KILL_SECONDS = 8
_RESTARTED_WITHIN = 300.0
_AT_REST = 0.3
"""Cores that are busy: an idle system takes a tenth of this."""
_REST_STEP = 5.0
_REST_LIMIT = 300.0


async def stored(plan: Plan) -> AsyncGenerator[Result, None]:
    sizes = plan.choose(
        (10_000, 100_000, 1_000_000),
        quick=(10_000, 50_000),
        full=(10_000, 100_000, 1_000_000, 10_000_000),
    )
    async with running_system("--schedulers", "2") as system:
        await warm_up(system)
        count = 0
        for size in sizes if not plan.smoke else (500, 1_000):
            storing = await _store(system, count, size)
            rate = round((size - count) / storing)
            count = size
            storing_mb = _peak_mb(system)
            rested = 0.0 if plan.smoke else await _rest()
            yield await _measure(system, size, rate, storing_mb, rested)


async def _store(system: System, begun: int, size: int) -> float:
    """Returns when all are in the index and in Postgres. Seconds until then."""
    began = time.perf_counter()
    within = _PATIENCE + (size - begun) / _SLOWEST
    defined = await system.history.definitions()
    now = time.time()
    for start in range(begun, size, _CHUNK):
        chunk = [jobs.yearly(number, now) for number in range(start, min(start + _CHUNK, size))]
        await jobs.submit(system.clock, chunk)
    await system.history.until_defined(defined + size - begun, within=within, poll=0.5)
    probes, before = [jobs.immediate()] * _PROBES, await system.history.succeeded()
    await jobs.submit(system.clock, probes)
    if await system.history.until_succeeded(before + _PROBES, within=within) < before + _PROBES:
        raise RuntimeError(f"after {within:.0f} s not all of {size} schedules are in the index")
    return time.perf_counter() - began


async def _rest() -> float:
    """Until hardly anything is done any more. How long that took."""
    began = time.perf_counter()
    while time.perf_counter() - began < _REST_LIMIT:
        before = accounting.machine_seconds()
        await asyncio.sleep(_REST_STEP)
        if accounting.machine_seconds() - before < _AT_REST * _REST_STEP:
            break
    return time.perf_counter() - began


async def _measure(system: System, size: int, stored_rate: int, storing_mb: float, rested: float) -> Result:
    first = time.time() + 3.0
    lags = await _fire(system, first, _RATE * _SECONDS, _SECONDS)
    nats_mb, scheduler_mb = system.memory_mb("nats"), system.memory_mb("scheduler")
    takeover = await _killed(system, "scheduler")
    restart = await _killed(system, "nats", within=_RESTARTED_WITHIN)
    return Result(
        name=f"stored/{size}",
        figures={
            "schedules": size,
            "stored_rate": stored_rate,
            **lag_figures(lags),
            "nats_mb": nats_mb,
            "scheduler_mb": scheduler_mb,
            "scheduler_storing_mb": storing_mb,
            "rested_s": round(rested, 1),
            "takeover_s": round(takeover, 2),
            "restart_s": round(restart, 2),
            "nats_restarted_mb": system.memory_mb("nats"),
            "log_disk_mb": accounting.disk_mb(system.data / "nats"),
            "postgres_disk_mb": accounting.disk_mb(system.data / "postgres"),
        },
        curve=curve(lags),
    )


def _peak_mb(system: System) -> float:
    """The most that any scheduler has had."""
    return round(max(map(accounting.peak_mb, system.processes["scheduler"]), default=0.0), 1)


async def _fire(
    system: System, first: float, count: int, seconds: float, within: float = 60.0
) -> list[float]:
    before = await system.history.succeeded()
    await jobs.submit(system.clock, jobs.spread(count, first, seconds))
    await asyncio.sleep(max(0.0, first + seconds - time.time()))
    done = await system.history.until_succeeded(before + count, within=within) - before
    if done < count:
        raise RuntimeError(f"{count - done} runs did not end")
    span = (first - 0.001, first + seconds + 0.001)
    return await system.history.lags(*(datetime.fromtimestamp(each, UTC) for each in span))


async def _killed(system: System, component: str, within: float = 60.0) -> float:
    """Runs are due all the while; the latest start tells how long it was away, or a partition without its owner."""
    first = time.time() + 2.0
    firing = asyncio.create_task(_fire(system, first, _KILL_RATE * _KILL_SECONDS, _KILL_SECONDS, within))
    await asyncio.sleep(first + 1.0 - time.time())
    os.kill(system.processes[component][0], signal.SIGKILL)
    return max(await firing)
