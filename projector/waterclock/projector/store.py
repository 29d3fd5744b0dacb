"""Rows into Postgres, together with the position they are of."""

from collections.abc import Sequence

import asyncpg
from msgspec import Struct
from msgspec.structs import astuple

from waterclock.projector.statements import statement
from waterclock.projector.writes import Row, Writes
from waterclock.proto.events import Instant


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

    async def _move(self, moves: Sequence[Move]) -> None:
        """First, because it takes the row locks: from here on nobody else writes these partitions."""
        arguments = zip(*[astuple(move) for move in moves], strict=True)
        status = await self._connection.execute(statement("move_positions"), *arguments, self._projector)
        if status != f"UPDATE {len(moves)}":
            raise PositionMoved(f"expected to move {len(moves)} positions: {status}")

    async def _merge(self, table: str, rows: Sequence[Row]) -> None:
        await self._connection.copy_records_to_table(f"staged_{table}", records=rows)
        await self._connection.execute(statement(f"merge_{table}"))
