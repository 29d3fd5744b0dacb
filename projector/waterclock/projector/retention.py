"""Deletes what is past its retention: whole weeks past the system's, and row by row what jobs want to keep less of.

Runs that have not ended stay, however old.
"""

import logging

import asyncpg
from msgspec import Struct

from waterclock.core.domain.instants import DAY
from waterclock.projector.write.database import statement
from waterclock.projector.write.week_partitions import WeekPartitions
from waterclock.proto.events import Instant

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
        runs = await database.fetchval(statement("delete_runs_by_age"), now)
        runs += await database.fetchval(statement("delete_runs_by_count"))
        jobs = await database.execute(statement("delete_jobs"), oldest)
        deleted = Deleted(weeks=weeks, runs=runs, jobs=int(jobs.rpartition(" ")[2]))
        if deleted.weeks or deleted.runs or deleted.jobs:
            _log.info(
                "past retention", extra={"weeks": deleted.weeks, "runs": deleted.runs, "jobs": deleted.jobs}
            )
        return deleted
