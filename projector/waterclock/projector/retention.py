"""What may go: weeks past the system's retention whole, and what jobs want to keep less of, row by row.

Runs that have not ended stay, however old.
"""

import logging

import asyncpg
from msgspec import Struct

from waterclock.core.domain.instants import DAY
from waterclock.projector.sql.statements import statement
from waterclock.projector.write.week_partitions import Weeks
from waterclock.proto.events import Instant

_log = logging.getLogger(__name__)


class Forgotten(Struct, frozen=True, kw_only=True):
    weeks: list[str]
    runs: int
    jobs: int


class Retention:
    def __init__(self, database: asyncpg.Connection, weeks: Weeks, days: float) -> None:
        self._database = database
        self._weeks = weeks
        self._days = days

    async def forget(self, now: Instant) -> Forgotten:
        """One pass."""
        oldest = now - int(self._days * DAY)
        database = self._database
        weeks = await self._weeks.drop_before(oldest)
        await self._weeks.ensure_ahead(now)
        await database.execute(statement("forget_stray_runs"), oldest)
        await database.execute(statement("forget_stray_attempts"), oldest)
        await database.execute(statement("forget_dead_letters"), oldest)
        runs = await database.fetchval(statement("forget_runs_by_age"), now)
        runs += await database.fetchval(statement("forget_runs_by_count"))
        jobs = await database.execute(statement("forget_jobs"), oldest)
        done = Forgotten(weeks=weeks, runs=runs, jobs=int(jobs.rpartition(" ")[2]))
        if done.weeks or done.runs or done.jobs:
            _log.info("forgotten", extra={"weeks": done.weeks, "runs": done.runs, "jobs": done.jobs})
        return done
