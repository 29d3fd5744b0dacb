"""When runs are counted by job: now and then, and not in the middle of a flood of them."""

from typing import Any, cast

import asyncpg

from waterclock.projector.flood import Flood
from waterclock.projector.job_stats import JobStats


class Nothing:
    """A database in which no hour has changed; how often it was asked for one."""

    def __init__(self) -> None:
        self.asked = 0

    async def fetchrow(self, *_: Any) -> None:
        self.asked += 1


class Hours:
    def __init__(self) -> None:
        self.now, self.folded, self.database = 1000.0, 0, Nothing()
        self.flood = Flood(lambda: self.folded, clock=lambda: self.now)
        self.stats = JobStats(cast(asyncpg.Connection, self.database), clock=lambda: self.now)

    async def looks_during(self, seconds: int, events_a_second: int) -> int:
        """Asked every other second, as housekeeping does."""
        before = self.database.asked
        for _ in range(0, seconds, 2):
            self.now += 2
            self.folded += 2 * events_a_second
            await self.stats.count_next(is_flooded=self.flood.is_on())
        return self.database.asked - before


async def test_hours_are_looked_at_every_few_seconds() -> None:
    assert await Hours().looks_during(600, events_a_second=100) >= 90


async def test_a_flood_is_waited_for_but_not_for_ever() -> None:
    hours = Hours()
    assert await hours.looks_during(590, events_a_second=20_000) == 0
    assert await hours.looks_during(600, events_a_second=20_000) == 1
    assert await hours.looks_during(10, events_a_second=0) >= 1, "it is over"
