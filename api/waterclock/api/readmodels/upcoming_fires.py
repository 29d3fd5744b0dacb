"""Jobs by when they fire next, as the read models have them."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

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
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_decode_schedule = msgspec.json.Decoder(Schedule).decode


class NextFire(Struct, frozen=True, kw_only=True):
    job_id: str
    name: str
    schedule: Schedule
    next_run_at: datetime
    skipped: frozenset[datetime] = frozenset()
    """Fires that are to be left out, and that have not come."""


async def recurring_before(
    pool: Pool, namespace: str, query: UpcomingQuery, end: datetime
) -> AsyncGenerator[list[NextFire], None]:
    """Jobs that fire again and again, and next before an instant."""
    async for rows in _firing(pool, namespace, query, _EVER, end, recurring=True):
        yield rows


async def between(
    pool: Pool, namespace: str, query: UpcomingQuery, start: datetime, end: datetime
) -> AsyncGenerator[list[NextFire], None]:
    """Jobs that fire next in [start, end), in that order."""
    async for rows in _firing(pool, namespace, query, start, end, recurring=False):
        yield rows


async def _firing(
    pool: Pool, namespace: str, query: UpcomingQuery, start: datetime, end: datetime, *, recurring: bool
) -> AsyncGenerator[list[NextFire], None]:
    labels = Labels.read(query.label)
    after = ""
    while True:
        rows = await pool.search(
            _SQL["firing"],
            namespace,
            start,
            end,
            after,
            query.job,
            labels.pairs,
            labels.keys,
            recurring,
            _ROWS,
        )
        yield [
            NextFire(
                job_id=row["job_id"],
                name=row["name"],
                schedule=Schedule() if row["schedule"] is None else _decode_schedule(row["schedule"]),
                next_run_at=row["next_run_at"],
            )
            for row in rows
        ]
        if len(rows) < _ROWS:
            return
        start, after = rows[-1]["next_run_at"], rows[-1]["job_id"]
