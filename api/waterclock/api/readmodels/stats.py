"""Counts of runs over time as the projector keeps them; of few runs by job or label, from the runs themselves."""

from datetime import datetime
from typing import Literal

import asyncpg
from msgspec import Struct

from waterclock.api.readmodels.paging import SQL
from waterclock.api.readmodels.pool import Pool
from waterclock.core.domain.readmodel.run_stats import RunCounts, histogram_of
from waterclock.core.sql import load_statements

_SQL = load_statements(SQL / "stats.sql")
_KEYS = {None: "''", "queue": "queue", "executor": "executor_id"}
_HOUR = 3600
MOST_KEYS = 100

Counted = dict[tuple[datetime, str | None], RunCounts]
"""By the step of time and the key."""


class Span(Struct, frozen=True):
    """Whole steps from `start` to `end`."""

    start: datetime
    end: datetime
    step: int
    """Seconds."""

    @property
    def is_of_hours(self) -> bool:
        return self.step % _HOUR == 0


async def counted(
    pool: Pool, namespace: str, span: Span, key: Literal["queue", "executor"] | None = None
) -> Counted:
    statement = _SQL["counted"].replace("{key}", _KEYS[key])
    seconds = _HOUR if span.is_of_hours else 60
    rows = await pool.search(statement, namespace, seconds, span.start, span.end, span.step)
    return {(row["step"], row["key"]): _counts(row) for row in rows}


async def by_job(pool: Pool, namespace: str, span: Span) -> Counted:
    """Of the jobs with most runs, by whole hours."""
    busiest = await pool.search(_SQL["busiest"], namespace, span.start, span.end, MOST_KEYS)
    job_ids = [row["job_id"] for row in busiest]
    rows = await pool.search(_SQL["counted_by_job"], namespace, span.start, span.end, job_ids, span.step)
    return {(row["step"], row["key"]): _counts(row) for row in rows}


async def by_label(pool: Pool, namespace: str, span: Span, label: str) -> Counted:
    rows = await pool.search(_SQL["counted_by_label"], namespace, span.start, span.end, label, span.step)
    return {(row["step"], row["key"]): _counts(row) for row in rows}


async def from_runs(pool: Pool, namespace: str, span: Span, label: str | None) -> Counted:
    """By the job, or by a label, in steps of any length."""
    statement = _SQL["from_runs"].replace("{key}", "r.job_id" if label is None else "d.labels ->> $4")
    found: Counted = {}
    for row in await pool.search(statement, namespace, span.start, span.end, label or "", span.step):
        counts = found.setdefault((row["step"], row["key"]), RunCounts())
        if row["kind"] == 1 and row["duration"] is not None:
            counts.durations[row["duration"]] = row["runs"]
        elif row["kind"] == 2 and row["lag"] is not None:
            counts.lags[row["lag"]] = row["runs"]
        elif row["kind"] == 3:
            counts.success, counts.failed, counts.missed = row["success"], row["failed"], row["missed"]
            counts.skipped, counts.cancelled = row["skipped"], row["cancelled"]
    return found


def _counts(row: asyncpg.Record) -> RunCounts:
    return RunCounts(
        success=row["success"],
        failed=row["failed"],
        missed=row["missed"],
        skipped=row["skipped"],
        cancelled=row["cancelled"],
        durations=histogram_of(row["durations"]),
        lags=histogram_of(row["lags"]),
    )
