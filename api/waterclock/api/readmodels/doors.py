"""The read models as a user of SQL sees them, to be compared with what others say."""

from typing import Any

from waterclock.api.readmodels.paging import SQL
from waterclock.api.readmodels.pool import Pool
from waterclock.core.sql import load_statements

Row = dict[str, Any]

_SQL = load_statements(SQL / "doors.sql")
_PAGE = 1000


async def some_jobs(pool: Pool, namespace: str, count: int) -> list[str]:
    return [row["job_id"] for row in await pool.fetch(_SQL["some_jobs"], namespace, count)]


async def jobs_after(pool: Pool, namespace: str, job_id: str) -> list[str]:
    return [row["job_id"] for row in await pool.fetch(_SQL["jobs_after"], namespace, job_id, _PAGE)]


async def jobs(pool: Pool, namespace: str, job_ids: list[str]) -> dict[str, Row]:
    return {row["job_id"]: dict(row) for row in await pool.fetch(_SQL["jobs"], namespace, job_ids)}


async def some_runs(pool: Pool, namespace: str, count: int, first: int) -> dict[str, int]:
    """Runs, and where in the log each begins."""
    rows = await pool.fetch(_SQL["some_runs"], namespace, count, first)
    return {row["run_id"]: row["first_sequence"] for row in rows}


async def runs_after(pool: Pool, namespace: str, first: int, last: int, run_id: str) -> dict[str, int]:
    rows = await pool.fetch(_SQL["runs_after"], namespace, first, last, run_id, _PAGE)
    return {row["run_id"]: row["first_sequence"] for row in rows}


async def runs(pool: Pool, run_ids: list[str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for start in range(0, len(run_ids), _PAGE):
        rows = await pool.fetch(_SQL["runs"], run_ids[start : start + _PAGE])
        found.update({row["run_id"]: dict(row) for row in rows})
    return found


async def may_be_deleted(pool: Pool, job_ids: list[str]) -> set[str]:
    """Those of these jobs whose runs may be gone before the system's retention."""
    return {row["job_id"] for row in await pool.fetch(_SQL["may_be_deleted"], job_ids)}


async def work_by_queue(pool: Pool) -> dict[tuple[str, str], int]:
    """By queue and tier, how many runs have work there or with an executor."""
    return {(row["queue"], row["tier"]): row["count"] for row in await pool.fetch(_SQL["work_by_queue"])}


async def running(pool: Pool, namespace: str, count: int) -> dict[str, str]:
    """Runs that run, and the executor of each."""
    rows = await pool.fetch(_SQL["running"], namespace, count)
    return {row["run_id"]: row["executor_id"] for row in rows}


async def executors(pool: Pool) -> set[str]:
    return {row["executor_id"] for row in await pool.fetch(_SQL["executors"])}


async def dead_letters_that_live(pool: Pool, namespace: str) -> list[tuple[str, str, str]]:
    """Run, what the dead letter says of it, and what it says itself."""
    return [tuple(row) for row in await pool.fetch(_SQL["dead_letters_that_live"], namespace)]
