"""What became of every run that was accepted, by what Postgres has."""

import asyncio
import itertools
import time
from datetime import UTC, datetime
from typing import Literal

import asyncpg
from msgspec import Struct

from bench.history import History

WINDOW = 5
"""Seconds."""
_STUCK = 60.0
"""Nothing at all has come into Postgres for so long: nothing will. Ends alone do not tell: while a million definitions
are projected, no run is for more than a minute, though thousands a second end."""
_POLL = 0.25
_ENDED = "end_time IS NOT NULL AND status <> 'MISSED'"


class Account(Struct, frozen=True, kw_only=True):
    missing: int
    """Accepted, or due by a schedule that was accepted, and not ended."""
    twice: int
    missed: int
    unsuccessful: int
    last_end: float
    """Since the epoch; 0 if none ended."""


class Wait(Struct, frozen=True, kw_only=True):
    why: Literal["all ended", "nothing moved", "time over"]
    """Why nobody waited any longer: only the second is a system that stands still."""
    at: float


class Outcomes:
    """Of one namespace since one moment: what was there before does not count."""

    def __init__(self, history: History, *, since: float, namespace: str = "default") -> None:
        self._database: asyncpg.Connection = history.database
        self._since = datetime.fromtimestamp(since, UTC)
        self._namespace = namespace

    async def until_ended(self, runs: int, *, within: float) -> Wait:
        """Wait for so many to be in Postgres as ended, until the time is over or nothing moves any more."""
        began = time.monotonic()
        before, moved = None, began
        while True:
            asked = time.monotonic()
            now_there = await self._there()
            now = time.monotonic()
            if now_there != before:
                before, moved = now_there, now
            if now_there[-1] >= runs:
                return Wait(why="all ended", at=time.time())
            if now - moved > _STUCK:
                return Wait(why="nothing moved", at=time.time())
            if now - began > within:
                return Wait(why="time over", at=time.time())
            # Counting costs what it takes; it may not take much of what is measured.
            await asyncio.sleep(max(_POLL, 10 * (now - asked)))

    async def windows(self, seconds: float) -> list[float]:
        """Runs ended a second in each whole window from the beginning, by their end times."""
        rows = await self._database.fetch(
            "SELECT floor(extract(epoch FROM end_time - $1) / $3)::int AS number, count(*) AS runs"
            f" FROM waterclock.job_runs WHERE {self._ours} AND {_ENDED} AND end_time >= $1 GROUP BY 1",
            self._since,
            self._namespace,
            WINDOW,
        )
        runs = {row["number"]: row["runs"] for row in rows}
        return [runs.get(number, 0) / WINDOW for number in range(int(seconds // WINDOW))]

    async def of_one_shots(self, accepted: int) -> Account:
        """Every definition must have one run that ended; one that was accepted must be there as a definition."""
        # One statement, since it goes on meanwhile: counts of two moments do not belong together.
        row = await self._database.fetchrow(
            "SELECT count(*) AS defined, count(*) FILTER (WHERE EXISTS (SELECT FROM waterclock.job_runs AS run"
            f" WHERE run.job_id = job.job_id AND {_ENDED})) AS done"
            " FROM waterclock.job_definitions AS job WHERE created_at >= $1 AND namespace = $2",
            self._since,
            self._namespace,
        )
        assert row is not None
        return await self._account(max(accepted, row["defined"]) - row["done"], "job_id")

    async def of_fires(self, expected: int) -> Account:
        found = await self._number(
            f"SELECT count(DISTINCT (job_id, scheduled_time)) FROM waterclock.job_runs WHERE {self._ours} AND {_ENDED}"
        )
        return await self._account(max(0, expected - found), "(job_id, scheduled_time)")

    async def missed(self) -> int:
        return await self._number(
            f"SELECT count(*) FROM waterclock.job_runs WHERE {self._ours} AND status = 'MISSED'"
        )

    async def lags(self, jobs: list[str] | None = None) -> list[float]:
        """Seconds from the scheduled time to the start, of these jobs or of all."""
        rows = await self._database.fetch(
            "SELECT extract(epoch FROM start_time - scheduled_time)::double precision AS lag"
            f" FROM waterclock.job_runs WHERE {self._ours} AND start_time IS NOT NULL"
            " AND ($3::text[] IS NULL OR job_id = ANY($3))",
            self._since,
            self._namespace,
            jobs,
        )
        return [row["lag"] for row in rows]

    async def starts(self, jobs: list[str]) -> dict[str, float]:
        """When the runs of these jobs started, since the epoch."""
        rows = await self._database.fetch(
            "SELECT job_id, extract(epoch FROM min(start_time))::double precision AS start"
            " FROM waterclock.job_runs WHERE job_id = ANY($1) AND start_time IS NOT NULL GROUP BY job_id",
            jobs,
        )
        return {row["job_id"]: row["start"] for row in rows}

    async def first_after(self, column: str, moment: float) -> float | None:
        """Seconds from a moment to the first `queued_time` or `start_time` after it."""
        found: float | None = await self._database.fetchval(
            f"SELECT extract(epoch FROM min({column}) - $3)::double precision FROM waterclock.job_runs"
            f" WHERE {self._ours} AND {column} > $3",
            self._since,
            self._namespace,
            datetime.fromtimestamp(moment, UTC),
        )
        return found

    async def longest_gap(self, since: float, until: float) -> float:
        """The longest time in a span in which no run started, in seconds."""
        rows = await self._database.fetch(
            "SELECT DISTINCT floor(extract(epoch FROM start_time) * 100) / 100 AS at FROM waterclock.job_runs"
            f" WHERE {self._ours} AND start_time BETWEEN $3 AND $4 ORDER BY 1",
            self._since,
            self._namespace,
            *(datetime.fromtimestamp(each, UTC) for each in (since, until)),
        )
        times = [since, *(float(row["at"]) for row in rows), until]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    @property
    def _ours(self) -> str:
        return "created_at >= $1 AND namespace = $2"

    async def _account(self, missing: int, unique: str) -> Account:
        row = await self._database.fetchrow(
            f"SELECT count(*) - count(DISTINCT {unique}) AS twice,"
            " count(*) FILTER (WHERE status <> 'SUCCESS') AS unsuccessful,"
            " extract(epoch FROM max(end_time))::double precision AS last_end"
            f" FROM waterclock.job_runs WHERE {self._ours} AND {_ENDED}",
            self._since,
            self._namespace,
        )
        assert row is not None
        return Account(
            missing=missing,
            twice=row["twice"],
            missed=await self.missed(),
            unsuccessful=row["unsuccessful"],
            last_end=row["last_end"] or 0.0,
        )

    async def _there(self) -> tuple[int, int, int]:
        """Definitions, runs, and runs that have ended."""
        row = await self._database.fetchrow(
            "SELECT (SELECT count(*) FROM waterclock.job_definitions WHERE created_at >= $1 AND namespace = $2),"
            f" count(*), count(*) FILTER (WHERE {_ENDED}) FROM waterclock.job_runs WHERE {self._ours}",
            self._since,
            self._namespace,
        )
        assert row is not None
        return row[0], row[1], row[2]

    async def _number(self, query: str) -> int:
        found: int = await self._database.fetchval(query, self._since, self._namespace)
        return found
