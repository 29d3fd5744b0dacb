"""Rows from Postgres: what a batch must know before it can be folded."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

import asyncpg
import msgspec

from waterclock.core.domain.instants import DAY, SECOND
from waterclock.core.domain.readmodel.rows import JobHead, RunRow
from waterclock.projector.sql.statements import statement
from waterclock.proto.events import Instant
from waterclock.proto.spec import Schedule


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
