"""Runs of all jobs, found by any filter in bounded time, however many there are.

An index yields them newest first: that of all runs of a namespace, of those that ended badly, of those that have not
ended, of a job, or of a workflow run. What no index knows is asked of each run that it yields, of at most `_LOOKED_AT`
of them a page. So a page may be short and yet not the last: its cursor says how far it has looked.
"""

from datetime import datetime

import asyncpg
import msgspec
from msgspec import Struct

from waterclock.api.readmodels.paging import SQL, containing, decode_cursor, encode_cursor, labels_of
from waterclock.api.readmodels.pool import Pool
from waterclock.core.domain.ids import DEFAULT_NAMESPACE
from waterclock.core.sql import load_statements
from waterclock.proto.answers import FoundRun, Page
from waterclock.proto.queries import RunFilter, RunSearch
from waterclock.proto.verdicts import ACTIVE, TERMINAL

_SQL = load_statements(SQL / "run_search.sql")
_LOOKED_AT = 20_000
_LABELLED_JOBS = 200
"""So many jobs with a label, and their runs are found by the jobs; with more, among all runs."""

_BAD = TERMINAL - {"SUCCESS"}
_ENDED_BADLY = "r.status IN ('FAILED', 'TIMED_OUT', 'CANCELLED', 'SKIPPED', 'MISSED')"
"""As the index `run_state_bad_time` says it."""
_NOT_ENDED = "r.status = ANY ($2::text[])"
_ANY = "true"

_decode = msgspec.json.Decoder(FoundRun).decode


class Labels(Struct, frozen=True):
    """What `key=value` and `key` ask for, as Postgres compares it."""

    pairs: str | None
    keys: list[str] | None

    @classmethod
    def read(cls, said: tuple[str, ...]) -> "Labels":
        return cls(*labels_of(said))


async def search(pool: Pool, namespace: str, query: RunSearch) -> Page[FoundRun]:
    labels, job_ids = Labels.read(query.label), None if query.job is None else [query.job]
    if query.label and query.job is None:
        job_ids = await _labelled(pool, namespace, labels)
        if job_ids is not None:
            labels = Labels(None, None)
        if job_ids == []:
            return Page(items=[])
    indexed = _indexed(query)
    by_status = bool(query.status) and indexed != _NOT_ENDED
    filters = (query.queue, query.executor, query.trigger, query.q, labels.pairs, labels.keys)
    looked_at = _LOOKED_AT if by_status or any(filters) else query.limit + 1
    time, run_id = decode_cursor(query.cursor, tuple[datetime, str]) if query.cursor else (None, None)
    statement = _SQL["search"].replace("{indexed}", indexed).replace("{matches}", _SQL["matches"])
    rows = await pool.search(
        statement,
        namespace,
        list(query.status) or None,
        job_ids,
        query.workflow_run,
        query.start,
        query.end,
        time,
        run_id,
        looked_at,
        labels.pairs,
        labels.keys,
        query.queue,
        query.executor,
        query.trigger,
        containing(query.q),
        1 if namespace == DEFAULT_NAMESPACE else len(namespace) + 2,
        query.limit + 1,
    )
    return _page(rows, query.limit, looked_at)


def _indexed(query: RunFilter) -> str:
    wanted = set(query.status)
    if wanted and wanted <= _BAD:
        return _ENDED_BADLY
    return _NOT_ENDED if wanted and wanted <= ACTIVE else _ANY


async def _labelled(pool: Pool, namespace: str, labels: Labels) -> list[str] | None:
    """The ids that runs of these jobs are listed under; None if there are too many."""
    rows = await pool.search(_SQL["labelled"], namespace, labels.pairs, labels.keys, _LABELLED_JOBS + 1)
    if any(row["place"] > _LABELLED_JOBS for row in rows):
        return None
    return [row["job_id"] for row in rows]


def _page(rows: list[asyncpg.Record], limit: int, looked_at: int) -> Page[FoundRun]:
    """The last row may be there only to say how far was looked."""
    found = [row for row in rows if row["matched"]]
    last = None
    if len(found) > limit:
        last = found[limit - 1]
    elif rows and rows[-1]["place"] == looked_at:
        last = rows[-1]
    return Page(
        items=[_decode(row["run"]) for row in found[:limit]],
        next_cursor=None if last is None else encode_cursor((last["scheduled_time"], last["run_id"])),
    )
