"""Who changed a job or a workflow, when and what; and the definition of then.

All of it is in the log, which forgets no definition but that of a one-shot, a month after its time.
"""

from collections import deque
from contextlib import aclosing

from msgspec import structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import NotFound
from waterclock.api.queries import jobs, workflows
from waterclock.api.queries.history import each_job_event
from waterclock.api.readmodels import jobs as rows
from waterclock.api.readmodels.jobs import JobRow
from waterclock.api.readmodels.paging import decode_cursor, encode_cursor
from waterclock.api.registry import handles
from waterclock.api.views import job_from_row, job_of_then
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.job.versions import Version, version_of
from waterclock.core.jetstream.job_definitions import Definition
from waterclock.proto import methods, queries, spec
from waterclock.proto.answers import DefinitionVersion, Job, Page, Workflow
from waterclock.proto.events import JobEvent


@handles(methods.JOBS_VERSIONS)
async def list_versions(
    app: Application, request: queries.VersionsQuery, caller: Caller
) -> Page[DefinitionVersion]:
    forgotten = await _forgotten(app, request.job_id, caller)
    if forgotten is not None:
        return Page(items=[_only_version(forgotten)])
    end = None if request.cursor is None else decode_cursor(request.cursor, tuple[int])[0]
    found: deque[Version] = deque(maxlen=request.limit + 1)
    before: JobEvent | None = None
    async with aclosing(each_job_event(app, request.job_id)) as history:
        async for version, event in history:
            if end is not None and version >= end:
                break
            found.append(version_of(version, event, before))
            before = event
    newest = [_answer(one) for one in reversed(found)]
    more = len(newest) > request.limit
    page = newest[: request.limit]
    return Page(items=page, next_cursor=encode_cursor((page[-1].version,)) if more else None)


@handles(methods.JOBS_VERSION)
async def get_version(app: Application, request: queries.VersionRef, caller: Caller) -> Job:
    row = await _forgotten(app, request.job_id, caller)
    if row is None:
        return job_of_then(await definition_at(app, request.job_id, request.version, caller))
    if row.version != request.version:
        raise _no_such_version(request.job_id, request.version)
    return structs.replace(job_from_row(row), last_run=None, next_run_at=None)


@handles(methods.WORKFLOWS_VERSIONS)
async def list_workflow_versions(
    app: Application, request: queries.WorkflowVersionsQuery, caller: Caller
) -> Page[DefinitionVersion]:
    await workflows.find(app, request.workflow_id, caller)
    query = queries.VersionsQuery(job_id=request.workflow_id, limit=request.limit, cursor=request.cursor)
    return await list_versions(app, query, caller)


@handles(methods.WORKFLOWS_VERSION)
async def get_workflow_version(
    app: Application, request: queries.WorkflowVersionRef, caller: Caller
) -> Workflow:
    found = await workflow_at(app, request.workflow_id, request.version, caller)
    return workflows.workflow_of(job_of_then(found))


async def definition_at(app: Application, job_id: str, version: int, caller: Caller) -> Definition:
    """The definition a job of the caller's had at a version."""
    await jobs.find(app, job_id, caller)
    definition = await app.definitions.at(job_id, version)
    if definition is None:
        raise _no_such_version(job_id, version)
    return definition


async def workflow_at(app: Application, workflow_id: str, version: int, caller: Caller) -> Definition:
    await workflows.find(app, workflow_id, caller)
    definition = await definition_at(app, workflow_id, version, caller)
    if not isinstance(definition.job.spec.task, spec.Workflow):
        raise NotFound.because(f"at version {version} {workflow_id} was a job, not a workflow")
    return definition


async def _forgotten(app: Application, job_id: str, caller: Caller) -> JobRow | None:
    """What the read models have of a job that the log no longer has; None if it does."""
    definition = await app.definitions.read(job_id)
    if definition is not None and definition.job.spec.namespace == caller.namespace:
        return None
    row = await rows.one(app.pool, caller.namespace, job_id)
    if row is None:
        raise jobs.no_such_job(job_id)
    return row


def _no_such_version(job_id: str, version: int) -> NotFound:
    return NotFound.because(f"{job_id} has no version {version}; its versions are listed with who made them")


def _answer(version: Version) -> DefinitionVersion:
    return DefinitionVersion(
        version=version.version,
        at=datetime_of(version.at),
        actor=version.actor,
        change=version.change,
        fields=list(version.fields),
        status=version.status,
        note=version.note,
    )


def _only_version(row: JobRow) -> DefinitionVersion:
    """Who made it is nowhere any more."""
    created = row.updated_at == row.created_at
    return DefinitionVersion(
        version=row.version,
        at=row.updated_at,
        actor="",
        change="created" if created else "updated",
        fields=[],
        status=row.status,
        note=row.note,
    )
