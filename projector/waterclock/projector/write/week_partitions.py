"""The tables of runs have a partition for each week: made ahead of need, dropped whole.

A row's week is that of its `created_at`. Rows of weeks that have no partition go to the default one, so an insert never
fails for want of one; when the partition is made after all, its rows move there.
"""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

import asyncpg

from waterclock.core.domain.instants import SECOND
from waterclock.projector.write.database import statement
from waterclock.proto.events import Instant

TABLES = ("run_state", "earlier_attempts")
WEEK = 7 * 86_400 * SECOND

_MONDAY = 4 * 86_400 * SECOND
"""The first Monday after the epoch, which was a Thursday."""
_AHEAD = 4
_BEHIND = 53
"""Weeks around now that get a partition of their own. A clock that is wrong by years must not make hundreds."""

_LOCK_TIMEOUT = "1s"
"""Making and dropping a partition waits for whoever reads the table, and all others wait behind it: rather later."""
_LOCK = 0x77617465_7765656B
"""Advisory lock of whoever makes a partition: projectors come to need the same one at the same time."""

_NOT_ANALYZED = {"run_state": ("output", "parameters", "error_message", "log_url")}
"""Columns without statistics, which a new partition does not take over: large, and compared by nobody."""

_OPEN = "status IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING')"

_log = logging.getLogger(__name__)


class WeekPartitions:
    """Of one schema."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._known: set[int] = set()

    async def open(self) -> None:
        self._known = await existing_weeks(self._connection, TABLES[0])

    async def ensure(self, instants: Iterable[Instant], now: Instant) -> None:
        """Make the partitions of the weeks of these instants, unless they are absurdly far from now."""
        here = week_of(now)
        for week in sorted({week_of(instant) for instant in instants} - self._known):
            if here - _BEHIND * WEEK <= week <= here + _AHEAD * WEEK:
                try:
                    await self._create(week)
                except asyncpg.LockNotAvailableError:
                    _log.info(
                        "tables are in use; the partition of a week is made later",
                        extra={"week": _date(week)},
                    )
            self._known.add(week)

    async def ensure_ahead(self, now: Instant) -> None:
        await self.ensure((now + ahead * WEEK for ahead in range(_AHEAD + 1)), now)

    async def drop_before(self, instant: Instant) -> list[str]:
        """Drop the partitions of weeks that ended before an instant; returns their names.

        A week with runs that have not ended stays, without those that have.
        """
        dropped = []
        await self.open()
        for week in sorted(week for week in self._known if week + WEEK <= instant):
            try:
                if await self._drop(week):
                    dropped.append(partition_name(TABLES[0], week))
            except asyncpg.LockNotAvailableError:
                _log.info(
                    "tables are in use; the partition of a week is dropped later", extra={"week": _date(week)}
                )
        return dropped

    async def _drop(self, week: int) -> bool:
        runs, attempts = (partition_name(table, week) for table in TABLES)
        async with self._connection.transaction():
            await self._connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            if await self._connection.fetchval(f"SELECT EXISTS (SELECT FROM {runs} WHERE {_OPEN})"):
                await self._connection.execute(f"DELETE FROM {runs} WHERE NOT {_OPEN}")
                return False
            await self._connection.execute(f"DROP TABLE {runs}, {attempts}")
        self._known.discard(week)
        return True

    async def _create(self, week: int) -> None:
        """In one transaction with the move of the rows that had to go to the default partition meanwhile."""
        async with self._connection.transaction():
            await self._connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            await self._connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            for table in TABLES:
                name = partition_name(table, week)
                if await self._connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name):
                    continue
                await self._connection.execute(
                    f"CREATE TABLE {name} (LIKE {table} INCLUDING CONSTRAINTS INCLUDING COMMENTS)"
                )
                for column in _NOT_ANALYZED.get(table, ()):
                    await self._connection.execute(
                        f"ALTER TABLE {name} ALTER COLUMN {column} SET STATISTICS 0"
                    )
                await self._connection.execute(
                    f"COMMENT ON TABLE {name} IS 'A part of {table}: the week from {_date(week)} on.'"
                )
                await self._connection.execute(
                    f"""WITH moved AS (
                            DELETE FROM {table}_default WHERE created_at >= $1 AND created_at < $2 RETURNING *)
                        INSERT INTO {name} SELECT * FROM moved""",
                    week,
                    week + WEEK,
                )
                await self._connection.execute(
                    f"ALTER TABLE {table} ATTACH PARTITION {name} "
                    f"FOR VALUES FROM ('{_date(week)}') TO ('{_date(week + WEEK)}')"
                )
        _log.info("partition of a week made", extra={"week": _date(week)})


async def existing_weeks(connection: asyncpg.Connection, table: str) -> set[Instant]:
    """The weeks that a partitioned table has."""
    rows = await connection.fetch(statement("week_partitions"), table)
    return {_start_of(row["name"]) for row in rows if not row["name"].endswith("_default")}


def week_of(instant: Instant) -> Instant:
    """The Monday that the week of an instant begins with."""
    return instant - (instant - _MONDAY) % WEEK


def partition_name(table: str, week: Instant) -> str:
    return f"{table}_{datetime.fromtimestamp(week // SECOND, UTC):%Y%m%d}"


def _start_of(name: str) -> Instant:
    day = datetime.strptime(name.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC)
    return int(day.timestamp()) * SECOND


def _date(week: Instant) -> str:
    return f"{datetime.fromtimestamp(week // SECOND, UTC):%Y-%m-%d}"
