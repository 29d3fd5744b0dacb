"""Looking at runs and dead letters."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import unscoped
from waterclock.api.errors import NotFound
from waterclock.api.queries.history import run_events
from waterclock.api.queries.jobs import no_such_job
from waterclock.api.readmodels import jobs, run_search, runs
from waterclock.api.readmodels.freshness import position
from waterclock.api.registry import handles
from waterclock.core.domain.ids import namespace_of
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.readmodel.rows import RunRow
from waterclock.core.domain.readmodel.run_fold import new_run_row, update_run_row
from waterclock.proto import methods, names
from waterclock.proto.answers import Attempt, DeadLetter, FoundRun, Page, Run
from waterclock.proto.queries import DeadLettersQuery, RunRef, RunSearch, RunsQuery

_RECENT = timedelta(minutes=10)
"""What was scheduled before has long been written down."""
_TIMES = (
    "scheduled_time",
    "due_time",
    "queued_time",
    "start_time",
    "end_time",
    "modified_time",
    "created_at",
)


@handles(methods.RUNS_LIST)
async def list_runs(app: Application, request: RunsQuery, caller: Caller) -> Page[Run]:
    await app.freshness.of_runs(app.partition_of(request.job_id))
    page = await runs.page(app.pool, caller.namespace, request)
    if not page.items and not await _exists(app, request.job_id, caller):
        raise no_such_job(request.job_id)
    return page


@handles(methods.RUNS_SEARCH)
async def search(app: Application, request: RunSearch, caller: Caller) -> Page[FoundRun]:
    part = request.job or request.workflow_run
    if part is not None:
        await app.freshness.of_runs(app.partition_of(part))
    elif request.cursor is None and (request.end is None or request.end > datetime.now(UTC) - _RECENT):
        await app.freshness.of_all_runs()
    return await run_search.search(app.pool, caller.namespace, request)


@handles(methods.RUNS_ATTEMPTS)
async def attempts(app: Application, request: RunRef, caller: Caller) -> Page[Attempt]:
    run = await find(app, request.run_id, caller)
    log_url = f"/v1/runs/{quote(unscoped(caller.namespace, run.run_id), safe='~@:')}/log"
    return Page(items=await runs.attempts(app.pool, caller.namespace, run.run_id, log_url))


@handles(methods.RUNS_GET)
async def get(app: Application, request: RunRef, caller: Caller) -> Run:
    return await find(app, request.run_id, caller)


@handles(methods.DEAD_LETTERS_LIST)
async def list_dead_letters(app: Application, request: DeadLettersQuery, caller: Caller) -> Page[DeadLetter]:
    return await runs.dead_letters(app.pool, caller.namespace, request)


async def find(app: Application, run_id: str, caller: Caller) -> Run:
    """The run as it is now; a run of another namespace does not exist."""
    fresh = await app.freshness.of_runs(app.partition_of(run_id))
    run = await runs.one(app.pool, caller.namespace, run_id)
    if run is None and not fresh and namespace_of(run_id) == caller.namespace:
        run = await _from_log(app, run_id)
    if run is None:
        raise NotFound.because(f"there is no run {run_id}")
    return run


async def _exists(app: Application, job_id: str, caller: Caller) -> bool:
    definition = await app.definitions.read(job_id)
    if definition is not None:
        return definition.job.spec.namespace == caller.namespace
    return await jobs.one(app.pool, caller.namespace, job_id) is not None


async def _from_log(app: Application, run_id: str) -> Run | None:
    """A run that the read models do not have yet, folded by the projector's own rules from the part of the log that
    they lack; None if that knows nothing of it."""
    projected = await position(app.pool, names.RUNS, app.partition_of(run_id))
    row: RunRow | None = None
    for sequence, event in await run_events(app, run_id, projected):
        if row is not None:
            update_run_row(row, event, sequence)
        elif (begun := new_run_row(event, sequence, namespace_of(run_id))) is not None:
            row = begun[0]
    return None if row is None else _run(row)


def _run(row: RunRow) -> Run:
    fields = {name: getattr(row, name) for name in Run.__struct_fields__}
    for name in _TIMES:
        fields[name] = None if fields[name] is None else datetime_of(fields[name])
    fields["output"] = None if row.output is None else msgspec.json.decode(row.output)
    return Run(**fields)
