"""Rows into Postgres, together with the position they are of."""

import logging
from collections.abc import Sequence
from functools import cache

import asyncpg
from msgspec import Struct
from msgspec.structs import astuple

from waterclock.projector.sql.statements import statement
from waterclock.projector.write.batch_rows import Row, Writes, bare_row
from waterclock.proto.events import Instant

REFUSALS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    ArithmeticError,
    TypeError,
    ValueError,
)
"""A row that Postgres, or the way there, will not take: however often it is tried."""

_FEW = 24
"""Up to so many rows go without the staging table: a transaction that has touched it empties all of them at its end,
which costs more than the rows."""

_log = logging.getLogger(__name__)


class PositionMoved(Exception):
    """Another projector was here: what this one remembers is out of date."""


class Move(Struct, frozen=True, kw_only=True, gc=False):
    """One partition of one stream, from where it was to where the batch ends."""

    stream: str
    partition: int
    expected: int
    position: int
    event_time: Instant | None = None


class Store:
    def __init__(self, connection: asyncpg.Connection, projector: str) -> None:
        self._connection = connection
        self._projector = projector

    async def open(self) -> None:
        await self._connection.execute(statement("stage"))

    async def write(self, writes: Writes, moves: Sequence[Move] = ()) -> None:
        """Rows and positions in one transaction: whatever dies in between, neither is there without the other."""
        async with self._connection.transaction():
            if moves:
                await self._move(moves)
            for table, rows in writes.new.items():
                await self._connection.copy_records_to_table(table, records=rows)
            if writes.revived:
                await self._connection.execute(statement("delete_dead_letters"), writes.revived)
            for table, rows in writes.merged.items():
                await self._merge(table, rows)

    async def salvage(self, writes: Writes, moves: Sequence[Move]) -> None:
        """The same, without the rows that are refused: for each of them what can be kept, or a line in the log."""
        async with self._connection.transaction():
            await self._move(moves)
            await self._connection.execute(statement("delete_dead_letters"), writes.revived)
            for tables in (writes.new, writes.merged):
                for table, rows in tables.items():
                    await self._merge_what_can_be(table, rows)

    async def _merge_what_can_be(self, table: str, rows: Sequence[Row]) -> None:
        try:
            async with self._connection.transaction():
                await self._merge(table, rows)
                await self._connection.execute(f"TRUNCATE staged_{table}")
        except REFUSALS as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                await self._merge_what_can_be(table, rows[:middle])
                await self._merge_what_can_be(table, rows[middle:])
                return
            _log.error("refused", extra={"table": table, "about": rows[0][0], "error": str(error)})
            if (bare := bare_row(table, rows[0], error.__cause__ or error)) != rows[0]:
                await self._merge_what_can_be(table, [bare])

    async def _move(self, moves: Sequence[Move]) -> None:
        """First, because it takes the row locks: from here on nobody else writes these partitions."""
        arguments = zip(*[astuple(move) for move in moves], strict=True)
        status = await self._connection.execute(statement("move_positions"), *arguments, self._projector)
        if status != f"UPDATE {len(moves)}":
            raise PositionMoved(f"expected to move {len(moves)} positions: {status}")

    async def _merge(self, table: str, rows: Sequence[Row]) -> None:
        if len(rows) <= _FEW:
            await self._connection.executemany(_one_by_one(table, len(rows[0])), rows)
            return
        await self._connection.copy_records_to_table(f"staged_{table}", records=rows)
        await self._connection.execute(statement(f"merge_{table}"))


@cache
def _one_by_one(table: str, columns: int) -> str:
    """The same merge for rows that come as parameters."""
    places = ", ".join(f"${number}" for number in range(1, columns + 1))
    return statement(f"merge_{table}").replace(f"SELECT * FROM staged_{table}", f"VALUES ({places})")
