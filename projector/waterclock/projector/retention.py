"""Deletes what is past its retention: whole weeks past the system's, and row by row what jobs want to keep less of.

Runs that have not ended stay, however old. What jobs want to keep less of is looked for every minute, the rest every
hour: it was kept for months. Both wait for the end of a flood, but not for ever.
"""

import logging

import asyncpg
from msgspec import Struct

from waterclock.core.domain.instants import DAY, HOUR, MINUTE
from waterclock.projector.write.database import statement
from waterclock.projector.write.week_partitions import WeekPartitions
from waterclock.proto.events import Instant

_LATEST = HOUR
"""How long a flood may put it off."""
_JOBS_AT_ONCE = 50_000
_JOB_ROUNDS = 20
"""Jobs deleted in a statement, of each namespace, and statements in a pass."""

_log = logging.getLogger(__name__)


class Deleted(Struct, frozen=True, kw_only=True):
    weeks: list[str]
    runs: int
    jobs: int


class Retention:
    def __init__(self, database: asyncpg.Connection, weeks: WeekPartitions, days: float) -> None:
        self._database = database
        self._weeks = weeks
        self._days = days
        self._next_own: Instant = 0
        self._next_all: Instant = 0

    async def keep(self, now: Instant, *, is_flooded: bool) -> None:
        """Delete what is due to go, if it is time to look."""
        patience = _LATEST if is_flooded else 0
        if now >= self._next_all + patience:
            self._next_all = now + HOUR
            self._next_own = now + MINUTE
            await self.delete_expired(now)
        elif now >= self._next_own + patience:
            self._next_own = now + MINUTE
            _tell(Deleted(weeks=[], runs=await self._delete_by_own_retention(now), jobs=0))

    async def delete_expired(self, now: Instant) -> Deleted:
        """One pass."""
        oldest = now - int(self._days * DAY)
        database = self._database
        weeks = await self._weeks.drop_before(oldest)
        await self._weeks.ensure_ahead(now)
        await database.execute(statement("delete_stray_runs"), oldest)
        await database.execute(statement("delete_stray_attempts"), oldest)
        await database.execute(statement("delete_expired_dead_letters"), oldest)
        await database.execute(statement("delete_expired_stats"), oldest)
        runs = await self._delete_by_own_retention(now)
        deleted = Deleted(weeks=weeks, runs=runs, jobs=await self._delete_jobs(oldest))
        _tell(deleted)
        return deleted

    async def _delete_jobs(self, oldest: Instant) -> int:
        deleted = 0
        for _ in range(_JOB_ROUNDS):
            said = await self._database.execute(statement("delete_jobs"), oldest, _JOBS_AT_ONCE)
            now_gone = int(said.rpartition(" ")[2])
            deleted += now_gone
            if now_gone < _JOBS_AT_ONCE:
                break
        return deleted

    async def _delete_by_own_retention(self, now: Instant) -> int:
        by_age: int = await self._database.fetchval(statement("delete_runs_by_age"), now)
        by_count: int = await self._database.fetchval(statement("delete_runs_by_count"))
        return by_age + by_count


def _tell(deleted: Deleted) -> None:
    if deleted.weeks or deleted.runs or deleted.jobs:
        _log.info(
            "past retention", extra={"weeks": deleted.weeks, "runs": deleted.runs, "jobs": deleted.jobs}
        )
