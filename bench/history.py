"""What Postgres says about runs: the benchmarks believe nothing else."""

import asyncio
import time
from datetime import datetime

import asyncpg


class History:
    def __init__(self, database: asyncpg.Connection) -> None:
        self.database = database

    async def succeeded(self) -> int:
        found: int = await self.database.fetchval(
            "SELECT count(*) FROM waterclock.job_runs WHERE status = 'SUCCESS'"
        )
        return found

    async def definitions(self) -> int:
        found: int = await self.database.fetchval("SELECT count(*) FROM waterclock.job_definitions")
        return found

    async def until_succeeded(self, jobs: int, *, within: float, poll: float = 0.1) -> int:
        """Wait until so many runs have ended well; returns how many have when the time is over.

        While it waits it asks the counts by hour, which are written with the runs: to count those themselves a few
        times a second took a tenth of a core of the Postgres that is measured. In the end they are counted.
        """
        await self._until("counted_as_succeeded", jobs, within, poll)
        return await self.succeeded()

    async def counted_as_succeeded(self) -> int:
        found: int = await self.database.fetchval(
            "SELECT coalesce(sum(success), 0)::bigint FROM waterclock.run_stats WHERE seconds = 3600"
        )
        return found

    async def until_defined(self, jobs: int, *, within: float, poll: float = 0.25) -> int:
        return await self._until("definitions", jobs, within, poll)

    async def lags(self, since: datetime, until: datetime | None = None) -> list[float]:
        """Seconds from the scheduled time to the start, of runs scheduled in a span."""
        rows = await self.database.fetch(
            "SELECT extract(epoch FROM start_time - scheduled_time)::double precision AS lag"
            " FROM waterclock.job_runs"
            " WHERE start_time IS NOT NULL"
            " AND scheduled_time >= $1 AND ($2::timestamptz IS NULL OR scheduled_time < $2)",
            since,
            until,
        )
        return [row["lag"] for row in rows]

    async def span(self, since: datetime) -> tuple[float, float]:
        """First start and last end, in seconds since the epoch, of runs created since."""
        row = await self.database.fetchrow(
            "SELECT extract(epoch FROM min(start_time))::double precision AS first,"
            " extract(epoch FROM max(end_time))::double precision AS last"
            " FROM waterclock.job_runs WHERE created_at >= $1",
            since,
        )
        assert row is not None
        return row["first"], row["last"]

    async def _until(self, what: str, jobs: int, within: float, poll: float) -> int:
        deadline = time.monotonic() + within
        while True:
            asked = time.monotonic()
            found: int = await getattr(self, what)()
            now = time.monotonic()
            if found >= jobs or now > deadline:
                return found
            # Counting costs what it takes; it may not take much of what is measured.
            await asyncio.sleep(max(poll, 10 * (now - asked)))
