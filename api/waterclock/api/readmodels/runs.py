"""Runs as the read models have them: of jobs, of workflows and of backfills, and those that became dead letters."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from waterclock.api.readmodels.paging import SQL, containing, decode_cursor, encode_cursor
from waterclock.api.readmodels.pool import Pool
from waterclock.core.domain.instants import instant_of
from waterclock.core.sql import load_statements
from waterclock.proto.answers import Attempt, DeadLetter, Page, Run
from waterclock.proto.events import Instant
from waterclock.proto.queries import DeadLettersQuery, RunsQuery
from waterclock.proto.verdicts import TERMINAL

_SQL = load_statements(SQL / "runs.sql")
_decode = msgspec.json.Decoder(Run).decode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_decode_dead_letter = msgspec.json.Decoder(DeadLetter).decode


async def page(pool: Pool, namespace: str, query: RunsQuery) -> Page[Run]:
    """Runs of a job, newest first."""
    created, run_id = decode_cursor(query.cursor, tuple[datetime, str]) if query.cursor else (None, None)
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
        next_cursor=encode_cursor((kept[-1]["created_at"], kept[-1]["run_id"])) if more else None,
    )


async def one(pool: Pool, namespace: str, run_id: str) -> Run | None:
    row = await pool.fetch_one(_SQL["one"], run_id, namespace)
    return None if row is None else _decode(row["run"])


async def attempts(pool: Pool, namespace: str, run_id: str, log_url: str) -> list[Attempt]:
    """Those of a run that have started, oldest first. `log_url`: of the whole run."""
    found = []
    for row in await pool.fetch(_SQL["attempts"], run_id, namespace):
        attempt = _decode_attempt(row["attempt"])
        own_log = f"{log_url}?attempt={attempt.attempt_number}" if attempt.log_url is not None else None
        found.append(msgspec.structs.replace(attempt, log_url=own_log))
    return found


async def by_prefix(pool: Pool, namespace: str, prefix: str) -> list[str]:
    rows = await pool.fetch(_SQL["by_prefix"], namespace, prefix, prefix + "\x7f")
    return [row["run_id"] for row in rows]


async def extent(pool: Pool, run_id: str) -> tuple[int, int, bool] | None:
    """The first and the last sequence in `RUNS` that changed a run, and whether more may come."""
    row = await pool.fetch_one(_SQL["extent"], run_id)
    return None if row is None else (int(row["first_sequence"]), int(row["last_sequence"]), bool(row["open"]))


async def version(pool: Pool, run_id: str) -> int:
    """The version of the definition a run runs with; 0 if nobody knows."""
    row = await pool.fetch_one(_SQL["version"], run_id)
    return 0 if row is None else int(row["version"] or 0)


async def fires_taken(pool: Pool, job_id: str) -> int:
    """How many fires of its schedule a job has taken."""
    row = await pool.fetch_one(_SQL["fires_taken"], job_id)
    return 0 if row is None else int(row["count"])


async def nodes(pool: Pool, workflow_run_id: str) -> dict[str, Run]:
    """The nodes of a workflow run that have runs, by their names."""
    found = [_decode(row["run"]) for row in await pool.fetch(_SQL["nodes"], workflow_run_id)]
    return {run.run_id.rpartition("~")[2]: run for run in found}


async def parameters(pool: Pool, workflow_run_id: str) -> Any:
    """What a workflow run was started with."""
    row = await pool.fetch_one(_SQL["parameters"], workflow_run_id)
    return None if row is None or row["parameters"] is None else msgspec.json.decode(row["parameters"])


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


async def dead_letters(pool: Pool, namespace: str, query: DeadLettersQuery) -> Page[DeadLetter]:
    dead, run_id = decode_cursor(query.cursor, tuple[datetime, str]) if query.cursor else (None, None)
    rows = await pool.fetch(
        _SQL["dead_letters"],
        namespace,
        query.job_id,
        query.status,
        containing(query.q),
        query.after,
        query.before,
        dead,
        run_id,
        query.limit + 1,
    )
    kept = rows[: query.limit]
    more = len(rows) > query.limit
    return Page(
        items=[_decode_dead_letter(row["letter"]) for row in kept],
        next_cursor=encode_cursor((kept[-1]["dead_time"], kept[-1]["run_id"])) if more else None,
    )


async def count_dead_letters(pool: Pool, namespace: str) -> int:
    row = await pool.fetch_one(_SQL["count_dead_letters"], namespace)
    return 0 if row is None else int(row["count"])


class BackfillProgress(Struct, frozen=True):
    """How many runs of a backfill are where."""

    done: int = 0
    failed: int = 0
    active: int = 0


async def backfill_progress(pool: Pool, backfill_id: str) -> BackfillProgress:
    rows = await pool.fetch(_SQL["backfill_progress"], backfill_id)
    counts = {row["status"]: row["count"] for row in rows}
    done = counts.get("SUCCESS", 0)
    ended = sum(count for status, count in counts.items() if status in TERMINAL)
    return BackfillProgress(done, ended - done, sum(counts.values()) - ended)


async def outcomes(pool: Pool, job_id: str, start: datetime, end: datetime) -> dict[Instant, set[str]]:
    """The statuses of the runs of each scheduled time in a range."""
    found: dict[Instant, set[str]] = {}
    for row in await pool.fetch(_SQL["outcomes"], job_id, start, end):
        found.setdefault(instant_of(row["scheduled_time"]), set()).add(row["status"])
    return found
