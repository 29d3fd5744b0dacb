"""Jobs by when they fire next, as the read models have them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

import asyncpg
import msgspec
from msgspec import Struct

from waterclock.api.readmodels.paging import SQL
from waterclock.api.readmodels.pool import Pool
from waterclock.api.readmodels.run_search import Labels
from waterclock.core.sql import load_statements
from waterclock.proto.queries import UpcomingQuery
from waterclock.proto.spec import Schedule

_SQL = load_statements(SQL / "upcoming.sql")
_ROWS = 1000

Place = tuple[datetime, str]
"""An instant and a job: those that fire at the same instant are in the order of their ids."""

_decode_schedule = msgspec.json.Decoder(Schedule).decode


class NextFire(Struct, frozen=True, kw_only=True):
    job_id: str
    name: str
    schedule: Schedule
    next_run_at: datetime
    skipped: frozenset[datetime]
    """Fires that are to be left out, and that have not come."""


async def recurring_before(
    pool: Pool, namespace: str, query: UpcomingQuery, place: Place
) -> AsyncGenerator[list[NextFire], None]:
    """Jobs that fire again and again, and next up to a place; in no order."""
    async for found in _all(pool, "recurring", namespace, query, *place):
        yield found


async def skipping(
    pool: Pool, namespace: str, query: UpcomingQuery, end: datetime
) -> AsyncGenerator[list[NextFire], None]:
    """Jobs of which a fire is to be left out, and that fire, or would, before an instant. They are among no others."""
    async for found in _all(pool, "skipping", namespace, query, end):
        yield found


async def _all(
    pool: Pool, statement: str, namespace: str, query: UpcomingQuery, end: datetime, *last: str
) -> AsyncGenerator[list[NextFire], None]:
    labels = Labels.read(query.label)
    rows = pool.search_all(_SQL[statement], namespace, end, query.job, labels.pairs, labels.keys, *last)
    async with aclosing(rows):
        async for found in rows:
            yield [_next_fire(row) for row in found]


async def between(
    pool: Pool, namespace: str, query: UpcomingQuery, place: Place, end: datetime
) -> AsyncGenerator[list[NextFire], None]:
    """Jobs that fire next after a place and before an instant, in that order."""
    labels = Labels.read(query.label)
    start, after = place
    while True:
        rows = await pool.search(
            _SQL["firing"], namespace, start, end, after, query.job, labels.pairs, labels.keys, _ROWS
        )
        yield [_next_fire(row) for row in rows]
        if len(rows) < _ROWS:
            return
        start, after = rows[-1]["next_run_at"], rows[-1]["job_id"]


def _next_fire(row: asyncpg.Record) -> NextFire:
    return NextFire(
        job_id=row["job_id"],
        name=row["name"],
        schedule=Schedule() if row["schedule"] is None else _decode_schedule(row["schedule"]),
        next_run_at=row["next_run_at"],
        skipped=frozenset(row["skipped"]),
    )
