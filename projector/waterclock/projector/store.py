"""Rows in and out of Postgres: what a batch needs to know, and what it changes, with the position, at once."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from waterclock.core.domain.instants import SECOND
from waterclock.projector.fold import Changes
from waterclock.projector.rows import JobHead, RunRow, dead_letter
from waterclock.projector.statements import statement
from waterclock.proto.events import Instant
from waterclock.proto.spec import Schedule

Rows = Sequence[tuple[Any, ...]]

_DAY = 86_400 * SECOND


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

    async def load_runs(self, run_ids: Iterable[str], newest: Instant) -> dict[str, RunRow]:
        """The rows of those runs that have one. `newest`: the time of the batch's newest event."""
        recent: list[str] = []
        other: list[str] = []
        since = _stamp(newest - _DAY)
        for run_id in run_ids:
            stamp = run_id.rpartition("@")[2]
            (recent if since <= stamp < "9" else other).append(run_id)
        rows: list[asyncpg.Record] = []
        if recent:
            # A run is decided when it is due and not before; the second day is for clocks that disagree.
            rows += await self._connection.fetch(statement("load_recent_runs"), recent, newest - 2 * _DAY)
        if other:
            rows += await self._connection.fetch(statement("load_runs"), other)
        return {row["run_id"]: RunRow(**row) for row in rows}

    async def load_jobs(self, job_ids: Iterable[str]) -> dict[str, JobHead]:
        rows = await self._connection.fetch(statement("load_jobs"), list(job_ids))
        return {row["job_id"]: JobHead(**{**row, "schedule": _schedule(row["schedule"])}) for row in rows}

    async def apply(self, changes: Changes, moves: Sequence[Move]) -> None:
        """Rows and positions in one transaction: whatever dies in between, neither is there without the other."""
        async with self._connection.transaction():
            await self._move(moves)
            await self._write_jobs(changes)
            await self._write_runs(changes)

    async def follow(self, moves: Sequence[Move]) -> None:
        """Positions alone, past messages that are not for us."""
        async with self._connection.transaction():
            await self._move(moves)

    async def write_states(self, heads: Iterable[JobHead]) -> None:
        """What became of jobs, as a rebuild finds it out again."""
        async with self._connection.transaction():
            await self._merge("job_state", "upsert_states", [head.state() for head in heads])

    async def _move(self, moves: Sequence[Move]) -> None:
        """First, because it takes the row locks: from here on nobody else writes these partitions."""
        arguments = zip(*[astuple(move) for move in moves], strict=True)
        status = await self._connection.execute(statement("move_positions"), *arguments, self._projector)
        if status != f"UPDATE {len(moves)}":
            raise PositionMoved(f"expected to move {len(moves)} positions: {status}")

    async def _write_jobs(self, changes: Changes) -> None:
        new = changes.new_jobs.values()
        await self._insert("job_definitions", [definition.row() for definition in new])
        await self._insert("job_state", [definition.head.state() for definition in new])
        changed = [definition.row() for definition in changes.changed_jobs.values()]
        await self._merge("job_definitions", "upsert_jobs", changed)
        await self._merge("job_state", "upsert_states", [head.state() for head in changes.states.values()])

    async def _write_runs(self, changes: Changes) -> None:
        await self._insert("job_runs", [astuple(row) for row in changes.new_runs.values()])
        changed = [astuple(row) for row in changes.changed_runs.values()]
        await self._merge("job_runs", "upsert_runs", changed)
        attempts = [astuple(attempt) for attempt in changes.attempts]
        await self._merge("earlier_attempts", "insert_attempts", attempts)
        if changes.revived:
            await self._connection.execute(statement("delete_dead_letters"), list(changes.revived))
        dead = [dead_letter(row) for row in changes.dead.values()]
        await self._merge("dead_letters", "upsert_dead_letters", dead)

    async def _insert(self, table: str, rows: Rows) -> None:
        if rows:
            await self._connection.copy_records_to_table(table, records=rows)

    async def _merge(self, table: str, merge: str, rows: Rows) -> None:
        if rows:
            await self._insert(f"staged_{table}", rows)
            await self._connection.execute(statement(merge))


def _stamp(instant: Instant) -> str:
    """The time as run ids spell it, so that they can be compared as text."""
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y%m%dT%H%M%S")


@lru_cache(maxsize=4096)
def _schedule(stored: bytes | None) -> Schedule:
    return Schedule() if stored is None else _decode_schedule(stored)


_decode_schedule = msgspec.json.Decoder(Schedule).decode
