"""Runs as the read models have them."""

from datetime import datetime

import msgspec
from msgspec import Struct

from waterclock.api.readmodels import cursor, statements
from waterclock.api.readmodels.pool import Pool
from waterclock.proto.answers import Page, Run
from waterclock.proto.queries import RunsQuery

_SQL = statements.load("runs.sql")
_decode = msgspec.json.Decoder(Run).decode


async def page(pool: Pool, namespace: str, query: RunsQuery) -> Page[Run]:
    created, run_id = cursor.read(query.cursor, tuple[datetime, str]) if query.cursor else (None, None)
    rows = await pool.fetch(
        _SQL["of_job"],
        query.job_id,
        namespace,
        query.status,
        query.after,
        query.before,
        created,
        run_id,
        query.limit + 1,
    )
    kept = rows[: query.limit]
    more = len(rows) > query.limit
    return Page(
        items=[_decode(row["run"]) for row in kept],
        next_cursor=cursor.write((kept[-1]["created_at"], kept[-1]["run_id"])) if more else None,
    )


async def one(pool: Pool, namespace: str, run_id: str) -> Run | None:
    row = await pool.fetch_one(_SQL["one"], run_id, namespace)
    return None if row is None else _decode(row["run"])


async def by_prefix(pool: Pool, namespace: str, prefix: str) -> list[str]:
    rows = await pool.fetch(_SQL["by_prefix"], namespace, prefix, prefix + "\x7f")
    return [row["run_id"] for row in rows]


async def position(pool: Pool, stream: str, partition: int) -> int:
    """How far a partition of a stream is folded in."""
    row = await pool.fetch_one(_SQL["position"], stream, partition)
    return 0 if row is None else int(row["position"])


class Redrivable(Struct, frozen=True, kw_only=True):
    """A run that ended badly, with what its next attempt needs."""

    run_id: str
    version: int | None
    scheduled_time: datetime
    attempt_number: int
    workflow_run_id: str | None
    epoch: int | None


async def redrivable(pool: Pool, namespace: str, run_ids: list[str]) -> list[Redrivable]:
    """Those of these runs that can be tried again."""
    return [Redrivable(**row) for row in await pool.fetch(_SQL["redrivable"], namespace, run_ids)]


async def first_sequence(pool: Pool, run_id: str) -> int:
    """Where in `RUNS` the history of a run begins."""
    row = await pool.fetch_one(_SQL["first_sequence"], run_id)
    return 1 if row is None else int(row["first_sequence"])


async def extent(pool: Pool, run_id: str) -> tuple[int, int, bool] | None:
    """Where in `RUNS` the history of a run begins, where it was last heard of, and whether more may come."""
    row = await pool.fetch_one(_SQL["extent"], run_id)
    return None if row is None else (int(row["first_sequence"]), int(row["last_sequence"]), bool(row["open"]))


async def version(pool: Pool, run_id: str) -> int:
    """The version of the definition a run runs with; 0 if nobody knows."""
    row = await pool.fetch_one(_SQL["version"], run_id)
    return 0 if row is None else int(row["version"] or 0)


async def taken(pool: Pool, job_id: str) -> int:
    """How many fires of its schedule a job has taken."""
    row = await pool.fetch_one(_SQL["taken"], job_id)
    return 0 if row is None else int(row["count"])
