"""Jobs as the read models have them."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from waterclock.api.readmodels.paging import SQL, containing, decode_cursor, encode_cursor, labels_of
from waterclock.api.readmodels.pool import Pool
from waterclock.core.sql import load_statements
from waterclock.proto.answers import Run
from waterclock.proto.queries import JobFilter, JobsQuery
from waterclock.proto.spec import JobSpec
from waterclock.proto.verdicts import JobState

_STATEMENTS = load_statements(SQL / "jobs.sql")
_NEXT = _STATEMENTS["next_run_at"]
_SQL = {
    name: statement.replace("{filter}", _STATEMENTS["filter"]).replace("{next_run_at}", _NEXT)
    for name, statement in _STATEMENTS.items()
}
_ORDERS = {
    "-created_at": ("d.created_at", "DESC", "timestamptz"),
    "created_at": ("d.created_at", "ASC", "timestamptz"),
    "-updated_at": ("d.updated_at", "DESC", "timestamptz"),
    "name": ("d.name", "ASC", "text"),
    "next_run_at": (f"coalesce({_NEXT}, '9999-12-31Z')", "ASC", "timestamptz"),
}
_NEVER = datetime(9999, 12, 31, tzinfo=UTC)


class JobRow(Struct, frozen=True, kw_only=True):
    job_id: str
    spec: JobSpec
    status: JobState
    version: int
    created_at: datetime
    updated_at: datetime
    note: str
    next_run_at: datetime | None
    skipped: frozenset[datetime]
    """Fires that somebody asked to leave out, and that have not come yet."""
    last_run: Run | None


async def page(
    pool: Pool, namespace: str, query: JobsQuery, *, workflows: bool | None
) -> tuple[list[JobRow], str | None]:
    """The rows of a page, and the cursor of the next one if there is one."""
    column, direction, kind = _ORDERS[query.sort]
    compare = "<" if direction == "DESC" else ">"
    statement = (
        _SQL["page"]
        .replace("{after}", f"({column}, d.job_id) {compare} ($12::{kind}, $13::text)")
        .replace("{order}", f"{column} {direction}, d.job_id {direction}")
        .replace("$12::text IS NULL", f"$12::{kind} IS NULL")
    )
    rows = await pool.fetch(
        statement, *_wanted(namespace, query), workflows, *_place(query, kind), query.limit + 1
    )
    found = [_row(row) for row in rows[: query.limit]]
    more = len(rows) > query.limit
    return found, encode_cursor((_key(found[-1], query.sort), found[-1].job_id)) if more else None


async def matching(
    pool: Pool,
    namespace: str,
    wanted: JobFilter,
    statuses: Collection[JobState],
    after: str | None,
    limit: int,
) -> list[str]:
    """The ids of jobs in one of some states, in order, after one of them."""
    rows = await pool.search(_SQL["matching"], *_wanted(namespace, wanted), list(statuses), after, limit)
    return [row["job_id"] for row in rows]


async def count_matching(
    pool: Pool, namespace: str, wanted: JobFilter, statuses: Collection[JobState]
) -> int:
    rows = await pool.search(_SQL["count_matching"], *_wanted(namespace, wanted), list(statuses))
    return int(rows[0]["count"])


async def lasting(
    pool: Pool,
    namespace: str,
    wanted: JobFilter,
    statuses: Collection[JobState],
    after: str | None,
    limit: int,
) -> list[JobRow]:
    """Definitions that may fire again, in the order of their ids, after one of them."""
    rows = await pool.fetch(_SQL["lasting"], *_wanted(namespace, wanted), list(statuses), after, limit)
    return [_row(row) for row in rows]


async def one(pool: Pool, namespace: str, job_id: str) -> JobRow | None:
    row = await pool.fetch_one(_SQL["one"], job_id, namespace)
    return None if row is None else _row(row)


async def by_prefix(pool: Pool, namespace: str, prefix: str) -> list[str]:
    rows = await pool.fetch(_SQL["by_prefix"], namespace, prefix, prefix + "\x7f")
    return [row["job_id"] for row in rows]


async def by_name(pool: Pool, namespace: str, name: str) -> list[str]:
    return [row["job_id"] for row in await pool.fetch(_SQL["by_name"], namespace, name)]


async def live_by_namespace(pool: Pool) -> dict[str, int]:
    """How many jobs of each namespace may still fire."""
    return {row["namespace"]: row["count"] for row in await pool.fetch(_SQL["live_by_namespace"])}


def _wanted(namespace: str, wanted: JobFilter) -> tuple[Any, ...]:
    """The first arguments of a statement with a filter."""
    pairs, keys = labels_of(wanted.label)
    return (
        namespace,
        wanted.status,
        pairs,
        keys,
        wanted.name,
        wanted.queue,
        wanted.schedule_type,
        containing(wanted.q),
        wanted.created_after,
        wanted.created_before,
    )


def _row(row: asyncpg.Record) -> JobRow:
    spec = msgspec.json.decode(row["spec"], type=JobSpec)
    if row["payload"] is not None:
        spec = msgspec.structs.replace(spec, payload=msgspec.json.decode(row["payload"]))
    return JobRow(
        job_id=row["job_id"],
        spec=spec,
        status=row["status"],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        note=row["note"] or "",
        next_run_at=row["next_run_at"],
        skipped=frozenset(row["skipped"]),
        last_run=None if row["last_run"] is None else msgspec.json.decode(row["last_run"], type=Run),
    )


def _place(query: JobsQuery, kind: str) -> tuple[datetime | str | None, str | None]:
    """The sort key and the id after which the page begins."""
    if query.cursor is None:
        return None, None
    if kind == "text":
        return decode_cursor(query.cursor, tuple[str, str])
    return decode_cursor(query.cursor, tuple[datetime, str])


def _key(row: JobRow, sort: str) -> datetime | str:
    match sort.removeprefix("-"):
        case "name":
            return row.spec.name
        case "updated_at":
            return row.updated_at
        case "next_run_at":
            return row.next_run_at or _NEVER
        case _:
            return row.created_at
