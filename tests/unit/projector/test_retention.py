"""When it is looked for what is past retention: by the minute and by the hour, and not in the middle of a flood."""

from typing import Any, cast

import asyncpg

from projector_rig.builders import T0
from waterclock.core.domain.instants import HOUR, MINUTE, SECOND
from waterclock.projector.retention import Retention
from waterclock.projector.write.database import statement
from waterclock.projector.write.week_partitions import WeekPartitions


class Database:
    """One in which nothing is past retention; what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fetchval(self, query: str, *_: Any) -> int:
        self.asked.append(query)
        return 0

    async def execute(self, query: str, *_: Any) -> str:
        self.asked.append(query)
        return "DELETE 0"


class Weeks:
    async def drop_before(self, _: int) -> list[str]:
        return []

    async def ensure_ahead(self, _: int) -> None: ...


class Kept:
    def __init__(self) -> None:
        self.database, self.now = Database(), T0
        self.retention = Retention(
            cast(asyncpg.Connection, self.database), cast(WeekPartitions, Weeks()), days=90
        )

    async def looks_during(self, span: int, *, is_flooded: bool) -> tuple[int, int]:
        """How often it was looked for what jobs keep less of, and for jobs to delete, when asked every other second."""
        self.database.asked.clear()
        for _ in range(0, span, 2 * SECOND):
            await self.retention.keep(self.now, is_flooded=is_flooded)
            self.now += 2 * SECOND
        asked = self.database.asked
        return asked.count(statement("delete_runs_by_age")), asked.count(statement("delete_jobs"))


async def test_what_jobs_keep_less_of_is_looked_for_every_minute_and_the_rest_every_hour() -> None:
    assert await Kept().looks_during(3 * HOUR, is_flooded=False) == (180, 3)


async def test_a_flood_is_waited_for_but_not_for_ever() -> None:
    kept = Kept()
    await kept.looks_during(MINUTE, is_flooded=False)
    assert await kept.looks_during(HOUR, is_flooded=True) == (0, 0)
    assert await kept.looks_during(2 * HOUR, is_flooded=True) == (2, 1)
    assert await kept.looks_during(2 * SECOND, is_flooded=False) == (1, 1), "it is over"
