"""Looking at jobs. The definition comes from the log, so that a read after a write sees it; the rest from Postgres."""

from contextlib import suppress

from waterclock.api import views
from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import scoped
from waterclock.api.errors import NotFound
from waterclock.api.readmodels import jobs, runs
from waterclock.api.readmodels.jobs import JobRow
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.core.jetstream.job_definitions import Definition
from waterclock.core.runtime.clock import now_us
from waterclock.proto import answers, methods
from waterclock.proto.queries import IdQuery, JobRef, JobsQuery


@handles(methods.JOBS_GET)
async def get(app: Application, request: JobRef, caller: Caller) -> answers.Job:
    definition = await app.definitions.read(request.job_id)
    if definition is not None and definition.job.spec.namespace == caller.namespace:
        return await job_answer(app, definition, caller)
    row = await read_row(app, request.job_id, caller)
    if row is None:
        raise no_such_job(request.job_id)
    return views.job_from_row(row)


@handles(methods.JOBS_STATUS)
async def status(app: Application, request: JobRef, caller: Caller) -> answers.JobStatus:
    with suppress(ReadModelsAway):
        await app.freshness.of_runs(app.partition_of(request.job_id))
    job = await get(app, request, caller)
    return answers.JobStatus(
        job_id=job.job_id,
        status=job.status,
        version=job.version,
        next_run_at=job.next_run_at,
        latest_run=job.last_run,
    )


@handles(methods.JOBS_LIST)
async def list_jobs(app: Application, request: JobsQuery, caller: Caller) -> answers.Page[answers.Job]:
    await app.freshness.of_own_definitions()
    rows, cursor = await jobs.page(app.pool, caller.namespace, request, workflows=None)
    return answers.Page(items=[views.job_from_row(row) for row in rows], next_cursor=cursor)


@handles(methods.IDS_FIND)
async def find_ids(app: Application, request: IdQuery, caller: Caller) -> answers.Ids:
    """A job may also be meant by its name, where no id begins like that."""
    if request.kind == "run":
        return answers.Ids(
            ids=await runs.by_prefix(app.pool, caller.namespace, scoped(caller.namespace, request.prefix))
        )
    found = await jobs.by_prefix(app.pool, caller.namespace, scoped(caller.namespace, request.prefix))
    return answers.Ids(ids=found or await jobs.by_name(app.pool, caller.namespace, request.prefix))


async def find(app: Application, job_id: str, caller: Caller) -> Definition:
    """The definition a command is about; a job of another namespace does not exist."""
    definition = await app.definitions.read(job_id)
    if definition is None or definition.job.spec.namespace != caller.namespace:
        raise no_such_job(job_id)
    return definition


async def job_answer(app: Application, definition: Definition, caller: Caller) -> answers.Job:
    """A definition with what the read models know beside it."""
    return views.job_from_log(definition, now_us(), await read_row(app, definition.job.job_id, caller))


def no_such_job(job_id: str) -> NotFound:
    return NotFound.because(f"there is no job {job_id}")


async def read_row(app: Application, job_id: str, caller: Caller) -> JobRow | None:
    """What the read models say of a job: nothing while they are away."""
    try:
        return await jobs.one(app.pool, caller.namespace, job_id)
    except ReadModelsAway:
        return None
