"""Looking at runs."""

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.auth.namespaces import namespace_of
from waterclock.api.errors import NotFound
from waterclock.api.queries.jobs import no_such_job
from waterclock.api.readmodels import jobs, runs
from waterclock.api.readmodels.unprojected import unprojected_run
from waterclock.api.registry import handles
from waterclock.proto import methods
from waterclock.proto.answers import Page, Run
from waterclock.proto.queries import RunRef, RunsQuery


@handles(methods.RUNS_LIST)
async def list_runs(app: Application, request: RunsQuery, caller: Caller) -> Page[Run]:
    await app.freshness.of_runs(app.partition_of(request.job_id))
    page = await runs.page(app.pool, caller.namespace, request)
    if not page.items and not await _exists(app, request.job_id, caller):
        raise no_such_job(request.job_id)
    return page


@handles(methods.RUNS_GET)
async def get(app: Application, request: RunRef, caller: Caller) -> Run:
    return await find(app, request.run_id, caller)


async def find(app: Application, run_id: str, caller: Caller) -> Run:
    """The run as it is now; a run of another namespace does not exist."""
    fresh = await app.freshness.of_runs(app.partition_of(run_id))
    run = await runs.one(app.pool, caller.namespace, run_id)
    if run is None and not fresh and namespace_of(run_id) == caller.namespace:
        run = await unprojected_run(app, run_id)
    if run is None:
        raise NotFound.because(f"there is no run {run_id}")
    return run


async def _exists(app: Application, job_id: str, caller: Caller) -> bool:
    definition = await app.definitions.read(job_id)
    if definition is not None:
        return definition.job.spec.namespace == caller.namespace
    return await jobs.one(app.pool, caller.namespace, job_id) is not None
