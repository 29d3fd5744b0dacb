"""Counts how the runs of each job went, an hour at a time, from the runs themselves.

To add to a job's counts with every batch would cost a row for most runs, as jobs that fire now and then have one run in
a batch. An hour is counted when something has changed in it, now and then, for at most a twentieth of the time; the
more often a job runs, the less that is for each run. What `run_stats` has more than all jobs together is of jobs that
run once, or not counted yet.

A flood of runs is not the time for it: an hour of a million runs takes seconds of a core. Then it waits for the end of
the flood, but no longer than ten minutes.
"""

import logging
import time
from collections.abc import Callable

import asyncpg

from waterclock.projector.write.database import statement

_SHARE = 20
"""After each count, a pause so many times as long."""
_LEAST_PAUSE = 5.0
_LATEST = 600.0
_MOST_SECONDS = 60
"""An hour that takes longer is left out: of so many runs nearly all are of jobs that run once."""

_log = logging.getLogger(__name__)


class JobStats:
    def __init__(self, database: asyncpg.Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._not_before = clock()

    async def count_next(self, *, is_flooded: bool = False) -> bool:
        """Count an hour, if it is time and one has changed. Returns whether it was counted."""
        began = self._clock()
        if began < self._not_before + (_LATEST if is_flooded else 0.0):
            return False
        stale = await self._database.fetchrow(statement("stale_job_hour"))
        if stale is not None:
            await self._count(stale["hour"], stale["fingerprint"])
        taken = self._clock() - began
        self._not_before = began + taken + max(_LEAST_PAUSE if stale is None else 0.0, _SHARE * taken)
        return stale is not None

    async def _count(self, hour: int, fingerprint: int) -> None:
        try:
            async with self._database.transaction():
                await self._database.execute(f"SET LOCAL statement_timeout = '{_MOST_SECONDS}s'")
                await self._database.execute(statement("delete_job_hour"), hour)
                await self._database.execute(statement("count_job_hour"), hour)
                await self._database.execute(statement("job_hour_counted"), hour, fingerprint)
        except asyncpg.QueryCanceledError:
            _log.warning("an hour has too many runs to count them by job", extra={"hour": hour})
            await self._database.execute(statement("job_hour_counted"), hour, fingerprint)
