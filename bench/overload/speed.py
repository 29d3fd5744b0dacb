"""How fast the machine is, all the while: what a core gives to who has it.

Who else uses the same processor changes that, to half and twice as much within a minute on the machines that these
benchmarks run on, and no counter shows it. So a fixed loop is run on each core four times a second, and the processor
time that it takes is noted. What was done in a window can then be told from what the machine gave in it.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

_EVERY = 0.25
_TURNS = 10_000
"""Of the loop, a third of a millisecond: all cores together lose a quarter of a percent by it."""


class Best(Struct, frozen=True):
    """What was done a second, and how fast the machine was meanwhile."""

    per_second: float
    speed: float | None = None
    """Turns of the loop in a microsecond."""


class Speedometer:
    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []
        """(since the epoch, turns in a microsecond, the mean of the cores)."""

    def between(self, begin: float, end: float) -> float | None:
        found = [speed for at, speed in self.samples if begin <= at < end]
        return statistics.fmean(found) if found else None

    def look(self) -> None:
        """To be called in a thread of its own, which it moves from core to core."""
        at, cores = time.time(), os.sched_getaffinity(0)
        try:
            self.samples.append((at, statistics.fmean(_turns(core) for core in cores)))
        finally:
            os.sched_setaffinity(0, cores)


@asynccontextmanager
async def speedometer() -> AsyncIterator[Speedometer]:
    found = Speedometer()
    task = asyncio.create_task(_keep_looking(found))
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def at_speed(per_second: float, speed: float | None, best: Best) -> float | None:
    """The share of the best that this is, had the machine been as fast as it was then."""
    if not speed or not best.speed or not best.per_second:
        return None
    return round(per_second / best.per_second * best.speed / speed, 3)


async def _keep_looking(speed: Speedometer) -> None:
    while True:
        await asyncio.to_thread(speed.look)
        await asyncio.sleep(_EVERY)


def _turns(core: int) -> float:
    os.sched_setaffinity(0, {core})
    began = time.thread_time_ns()
    for _ in range(_TURNS):
        pass
    return _TURNS * 1000 / max(1, time.thread_time_ns() - began)
