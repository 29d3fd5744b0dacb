"""Rows from Postgres before a batch is folded, and into Postgres after it, together with the position they are of."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from waterclock.core.domain.ids import run_id as run_id_at
from waterclock.core.domain.instants import DAY, SECOND
from waterclock.core.domain.readmodel.rows import JobRow, RunRow
from waterclock.core.domain.readmodel.short_life import StoredOneShot
from waterclock.projector.read.positions import PositionMove
from waterclock.projector.write.database import statement
from waterclock.proto.events import Instant, RunQueued
from waterclock.proto.spec import Schedule

Row = tuple[Any, ...]

ROW_REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    ArithmeticError,
    TypeError,
    ValueError,
)
"""A row that Postgres, or the client library, will not take: however often it is tried."""

_FEW = 24
"""Up to so many rows go without the staging table: a transaction that has touched it empties all of them at its end,
which costs more than the rows."""

_LONG_HISTOGRAM = 512
"""Numbers; to add one up takes as long as a hundred rows do."""

_log = logging.getLogger(__name__)


class PositionMoved(Exception):
    """Another projector was here: what this one remembers is out of date."""


class RowBatch(Struct, frozen=True, kw_only=True):
    """What a batch writes: rows by table, in the order of the columns."""

    inserts: dict[str, list[Row]] = field(default_factory=dict)
    """Rows that are certainly not there yet."""
    upserts: dict[str, list[Row]] = field(default_factory=dict)
    """Rows that may be."""
    presumed_new: dict[str, list[Row]] = field(default_factory=dict)
    """Rows that should not be there yet, but nobody has looked; perhaps without last columns that have a default."""
    revived: list[str] = field(default_factory=list)
    """Runs that are no longer dead letters."""
    new_run_times: frozenset[Instant] = frozenset()
    """The seconds in which the new runs were created: their weeks must have a partition."""

    @property
    def row_count(self) -> int:
        tables = (*self.inserts.values(), *self.upserts.values(), *self.presumed_new.values())
        return sum(map(len, tables))


class _Upsert(Struct, frozen=True):
    key: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    """Columns that a row keeps as it was first written."""
    added: tuple[str, ...] = ()
    """Columns that are added to what is there."""
    histograms: tuple[str, ...] = ()
    """Columns with histograms, which are put behind what is there, and added up when that has become long."""


_UPSERTS: Mapping[str, _Upsert | None] = {
    "run_state": _Upsert(
        ("run_id", "created_at"), ("job_id", "namespace", "trigger", "scheduled_time", "first_sequence")
    ),
    "earlier_attempts": None,
    "dead_letters": _Upsert(("run_id",), ("job_id", "namespace", "scheduled_time", "first_sequence")),
    "job_definitions": _Upsert(("job_id",)),
    "job_state": _Upsert(("job_id",)),
    "run_stats": _Upsert(
        ("namespace", "seconds", "bucket", "queue", "executor_id", "part"),
        added=("success", "failed", "missed", "skipped", "cancelled"),
        histograms=("durations", "lags"),
    ),
}
"""How a row that is there already is changed; None: it is not."""


class Store:
    def __init__(self, connection: asyncpg.Connection, projector: str) -> None:
        self._connection = connection
        self._projector = projector
        self._upserts: dict[str, tuple[str, str]] = {}
        """For each table the statement for one row, and for all that are staged."""
        self._columns: dict[str, list[str]] = {}

    async def open(self) -> None:
        """Make the tables that rows are staged in: COPY gets them there for a third of what parameters cost."""
        for table in _UPSERTS:
            await self._connection.execute(
                f"CREATE TEMPORARY TABLE staged_{table} (LIKE {table}) ON COMMIT DELETE ROWS"
            )
            columns = [row["name"] for row in await self._connection.fetch(statement("columns"), table)]
            self._columns[table] = columns
            places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
            self._upserts[table] = (
                _upsert_statement(table, columns, f"VALUES ({places})"),
                _upsert_statement(table, columns, f"SELECT * FROM staged_{table}"),
            )

    async def write(self, batch: RowBatch, moves: Sequence[PositionMove] = ()) -> None:
        """Rows and positions in one transaction: whatever dies in between, neither is there without the other."""
        async with self._connection.transaction():
            if moves:
                await self._move(moves)
            for table, rows in (*batch.inserts.items(), *batch.presumed_new.items()):
                columns = self._columns[table][: len(rows[0])]
                await self._connection.copy_records_to_table(table, records=rows, columns=columns)
            if batch.revived:
                await self._connection.execute(statement("delete_dead_letters"), batch.revived)
            for table, rows in batch.upserts.items():
                await self._upsert(table, rows)

    async def write_what_is_accepted(self, batch: RowBatch, moves: Sequence[PositionMove]) -> None:
        """The same, without the rows that are refused: for each of them what can be kept, or a line in the log."""
        async with self._connection.transaction():
            await self._move(moves)
            await self._connection.execute(statement("delete_dead_letters"), batch.revived)
            for tables in (batch.inserts, batch.upserts):
                for table, rows in tables.items():
                    await self._upsert_accepted(table, rows)

    async def _upsert_accepted(self, table: str, rows: Sequence[Row]) -> None:
        """Halve what was refused until the row is found that it was refused for."""
        try:
            async with self._connection.transaction():
                await self._upsert(table, rows)
                await self._connection.execute(f"TRUNCATE staged_{table}")
        except ROW_REFUSED as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                await self._upsert_accepted(table, rows[:middle])
                await self._upsert_accepted(table, rows[middle:])
                return
            _log.error("refused", extra={"table": table, "about": rows[0][0], "error": str(error)})
            if (bare := _bare_row(table, rows[0], error.__cause__ or error)) != rows[0]:
                await self._upsert_accepted(table, [bare])

    async def _move(self, moves: Sequence[PositionMove]) -> None:
        """First, because it takes the row locks: from here on nobody else writes these partitions."""
        arguments = zip(*[astuple(move) for move in moves], strict=True)
        status = await self._connection.execute(statement("move_positions"), *arguments, self._projector)
        if status != f"UPDATE {len(moves)}":
            raise PositionMoved(f"expected to move {len(moves)} positions: {status}")

    async def _upsert(self, table: str, rows: Sequence[Row]) -> None:
        of_one, of_staged = self._upserts[table]
        if len(rows) <= _FEW:
            await self._connection.executemany(of_one, rows)
            return
        await self._connection.copy_records_to_table(f"staged_{table}", records=rows)
        await self._connection.execute(of_staged)


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
        # A run is decided when it is due and not before; the other days are for clocks that disagree.
        rows += await connection.fetch(
            statement("load_recent_runs"), recent, newest - 2 * DAY, newest + 2 * DAY
        )
    if other:
        rows += await connection.fetch(statement("load_runs"), other)
    return {row["run_id"]: RunRow(**row) for row in rows}


async def load_jobs(connection: asyncpg.Connection, job_ids: Iterable[str]) -> dict[str, JobRow]:
    rows = await connection.fetch(statement("load_jobs"), list(job_ids))
    return {
        row["job_id"]: JobRow(
            **{**row, "schedule": _schedule(row["schedule"]), "skipped": tuple(row["skipped"])}
        )
        for row in rows
    }


async def load_due_one_shots(
    connection: asyncpg.Connection, runs: Iterable[tuple[str, RunQueued]]
) -> dict[str, StoredOneShot]:
    """Of jobs and their first runs, those jobs that have a row in which nothing has happened, and their time is that
    of the run."""
    asked = [(job_id, queued.version, queued.scheduled) for job_id, queued in runs]
    rows = await connection.fetch(statement("load_due_one_shots"), *zip(*asked, strict=True))
    return {row["job_id"]: StoredOneShot(*row) for row in rows}


def _upsert_statement(table: str, columns: Sequence[str], source: str) -> str:
    insert = f"INSERT INTO {table} {source} ON CONFLICT"
    upsert = _UPSERTS[table]
    if upsert is None:
        return f"{insert} DO NOTHING"
    changed = [column for column in columns if column not in upsert.key + upsert.fixed]
    assignments = ", ".join(f"{column} = {_new_value(table, column, upsert)}" for column in changed)
    return f"{insert} ({', '.join(upsert.key)}) DO UPDATE SET {assignments}"


def _new_value(table: str, column: str, upsert: _Upsert) -> str:
    if column in upsert.added:
        return f"{table}.{column} + excluded.{column}"
    if column in upsert.histograms:
        both = f"{table}.{column} || excluded.{column}"
        is_long = f"cardinality({table}.{column}) > {_LONG_HISTOGRAM}"
        return f"CASE WHEN {is_long} THEN compact_histogram({both}) ELSE {both} END"
    return f"excluded.{column}"


def _bare_row(table: str, row: Row, error: BaseException) -> Row:
    """A row that was refused, without what may have been the reason: that the run happened is worth more."""
    if table != "run_state":
        return row
    run = RunRow(**dict(zip(RunRow.__struct_fields__, row, strict=True)))
    run.exit_code = run.error_message = run.output = run.log_url = run.parameters = None
    run.cpu_seconds = run.memory_bytes = run.fencing_token = run.epoch = None
    run.reason = f"not all of it could be stored: {type(error).__name__}"
    return astuple(run)


def _stamp(instant: Instant) -> str:
    """The time as run ids spell it, so that they can be compared as text."""
    return run_id_at("", instant // SECOND * SECOND).strip("@Z")


@lru_cache(maxsize=4096)
def _schedule(stored: bytes | None) -> Schedule:
    return Schedule() if stored is None else _decode_schedule(stored)


_decode_schedule = msgspec.json.Decoder(Schedule).decode
