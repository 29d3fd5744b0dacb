"""The runs that something is to be done with: by their ids, or all that a filter matches."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from waterclock.api.readmodels.paging import SQL, containing, labels_of
from waterclock.api.readmodels.pool import Pool
from waterclock.api.readmodels.runs import Redrivable
from waterclock.core.sql import load_statements
from waterclock.proto.queries import RunFilter
from waterclock.proto.verdicts import RunStatus

_STATEMENTS = load_statements(SQL / "run_choice.sql")
_SQL = {name: statement.replace("{filter}", _STATEMENTS["filter"]) for name, statement in _STATEMENTS.items()}


class ChosenRun(Redrivable, frozen=True, kw_only=True):
    """With what a request about it needs."""

    status: RunStatus
    is_workflow: bool
    """Whether its job is a workflow: then it is a workflow run, or part of one."""


async def matching(
    pool: Pool,
    namespace: str,
    wanted: RunFilter,
    statuses: Collection[RunStatus],
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[ChosenRun]:
    """Runs in one of some states, in the order of their times, after one of them."""
    place = (None, None) if after is None else after
    rows = await pool.search(_SQL["matching"], *_wanted(namespace, wanted), list(statuses), *place, limit)
    return [ChosenRun(**row) for row in rows]


async def count_matching(
    pool: Pool, namespace: str, wanted: RunFilter, statuses: Collection[RunStatus]
) -> int:
    rows = await pool.search(_SQL["count_matching"], *_wanted(namespace, wanted), list(statuses))
    return int(rows[0]["count"])


async def by_ids(pool: Pool, namespace: str, run_ids: list[str]) -> dict[str, ChosenRun]:
    rows = await pool.fetch(_SQL["by_ids"], namespace, run_ids)
    return {row["run_id"]: ChosenRun(**row) for row in rows}


def _wanted(namespace: str, wanted: RunFilter) -> tuple[Any, ...]:
    """The first arguments of a statement with a filter."""
    pairs, keys = labels_of(wanted.label)
    return (
        namespace,
        list(wanted.status) or None,
        wanted.job,
        wanted.workflow_run,
        pairs,
        keys,
        wanted.queue,
        wanted.executor,
        wanted.trigger,
        containing(wanted.q),
        wanted.start,
        wanted.end,
    )
