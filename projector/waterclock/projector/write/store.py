"""Rows into Postgres, together with the position they are of.

What a batch writes, as plain rows: the fold may go on with the next batch while these are on their way.

Rows from Postgres: what a batch must know before it can be folded.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from waterclock.core.domain.instants import DAY, SECOND
from waterclock.core.domain.readmodel.rows import JobHead, RunRow, dead_letter
from waterclock.projector.fold.batch_fold import Changes
from waterclock.projector.sql.statements import statement
from waterclock.proto.events import Instant
from waterclock.proto.spec import Schedule

Row = tuple[Any, ...]


class Writes(Struct, frozen=True, kw_only=True):
    """Rows by table."""

    new: dict[str, list[Row]] = field(default_factory=dict)
    """That are certainly not there yet."""
    merged: dict[str, list[Row]] = field(default_factory=dict)
    """That may be."""
    revived: list[str] = field(default_factory=list)
    """Runs that are no longer dead letters."""
    born: frozenset[Instant] = frozenset()
    """The seconds in which the new runs were created."""

    @property
    def rows(self) -> int:
        return sum(len(rows) for kind in (self.new, self.merged) for rows in kind.values())


def writes_of(changes: Changes) -> Writes:
    new_jobs = changes.new_jobs.values()
    return Writes(
        new=_filled(
            job_definitions=[definition.row() for definition in new_jobs],
            job_state=[definition.head.state() for definition in new_jobs],
            job_runs=[astuple(row) for row in changes.new_runs.values()],
        ),
        merged=_filled(
            job_definitions=[definition.row() for definition in changes.changed_jobs.values()],
            job_state=[head.state() for head in changes.states.values()],
            job_runs=[astuple(row) for row in changes.changed_runs.values()],
            earlier_attempts=[astuple(attempt) for attempt in changes.attempts],
            dead_letters=[dead_letter(row) for row in changes.dead.values()],
        ),
        revived=list(changes.revived),
        born=frozenset({row.created_at // SECOND * SECOND for row in changes.new_runs.values()}),
    )


def states_of(heads: Iterable[JobHead]) -> Writes:
    return Writes(merged=_filled(job_state=[head.state() for head in heads]))


def bare_row(table: str, row: Row, error: BaseException) -> Row:
    """A row that was refused, without what may have been the reason: that the run happened is worth more."""
    if table != "job_runs":
        return row
    run = RunRow(**dict(zip(RunRow.__struct_fields__, row, strict=True)))
    run.exit_code = run.error_message = run.output = run.log_url = run.parameters = None
    run.cpu_seconds = run.memory_bytes = run.fencing_token = run.epoch = None
    run.reason = f"not all of it could be stored: {type(error).__name__}"
    return astuple(run)


def _filled(**tables: list[Row]) -> dict[str, list[Row]]:
    return {table: rows for table, rows in tables.items() if rows}


async def load_runs(
    connection: asyncpg.Connection, run_ids: Iterable[str], newest: Instant
) -> dict[str, RunRow]:
    """The rows of those runs that have one. `newest`: the time of the batch's newest event."""
    recent: list[str] = []
    other: list[str] = []
    since = _stamp(newest - DAY)
    for run_id in run_ids:
        stamp = run_id.rpartition("@")[2]
        (recent if since <= stamp < "9" else other).append(run_id)
    rows: list[asyncpg.Record] = []
    if recent:
        # A run is decided when it is due and not before; the second day is for clocks that disagree.
        rows += await connection.fetch(statement("load_recent_runs"), recent, newest - 2 * DAY)
    if other:
        rows += await connection.fetch(statement("load_runs"), other)
    return {row["run_id"]: RunRow(**row) for row in rows}


async def load_jobs(connection: asyncpg.Connection, job_ids: Iterable[str]) -> dict[str, JobHead]:
    rows = await connection.fetch(statement("load_jobs"), list(job_ids))
    return {row["job_id"]: JobHead(**{**row, "schedule": _schedule(row["schedule"])}) for row in rows}


def _stamp(instant: Instant) -> str:
    """The time as run ids spell it, so that they can be compared as text."""
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y%m%dT%H%M%S")


@lru_cache(maxsize=4096)
def _schedule(stored: bytes | None) -> Schedule:
    return Schedule() if stored is None else _decode_schedule(stored)


_decode_schedule = msgspec.json.Decoder(Schedule).decode


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
