"""Workflows. A workflow is a job whose runs are waves: what holds for jobs holds here, in a workflow's words."""

import asyncio
from contextlib import suppress

from msgspec import UNSET, structs

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.commands import control
from waterclock.api.commands import create as create_job
from waterclock.api.errors import Invalid, NotFound
from waterclock.api.queries import jobs
from waterclock.api.queries.run_log import News, and_events
from waterclock.api.readmodels import jobs as rows
from waterclock.api.readmodels import runs
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.api.views import job_from_row
from waterclock.proto import commands, methods, queries, spec
from waterclock.proto.answers import (
    Job,
    Page,
    Workflow,
    WorkflowAccepted,
    WorkflowRunAccepted,
)
from waterclock.proto.spec import JobRequest

_PATIENCE = 2.0


@handles(methods.WORKFLOWS_CREATE)
async def create(app: Application, request: JobRequest, caller: Caller) -> WorkflowAccepted:
    if not isinstance(request.nodes, list) or not request.nodes:
        raise Invalid.field("nodes", "a workflow needs at least one node")
    accepted = await create_job.create(app, request, caller)
    return WorkflowAccepted(
        workflow_id=accepted.job_id,
        version=accepted.version,
        status=accepted.status,
        next_run_at=accepted.next_run_at,
        created=accepted.created,
    )


@handles(methods.WORKFLOWS_LIST)
async def list_workflows(app: Application, request: queries.JobsQuery, caller: Caller) -> Page[Workflow]:
    await app.freshness.of_own_definitions()
    found, cursor = await rows.page(app.pool, caller.namespace, request, workflows=True)
    return Page(items=[_workflow(job_from_row(row)) for row in found], next_cursor=cursor)


@handles(methods.WORKFLOWS_GET)
async def get(app: Application, request: queries.WorkflowRef, caller: Caller) -> Workflow:
    return _workflow(await jobs.get(app, queries.JobRef(job_id=request.workflow_id), caller))


@handles(methods.WORKFLOWS_UPDATE)
async def update(app: Application, request: commands.WorkflowPatch, caller: Caller) -> Workflow:
    await _find(app, request.workflow_id, caller)
    said = {name: getattr(request, name) for name in JobRequest.__struct_fields__}
    said |= {"job_id": request.workflow_id, "workflow_id": UNSET}
    return _workflow(await control.update(app, commands.JobPatch(**said, if_match=request.if_match), caller))


@handles(methods.WORKFLOWS_CANCEL)
async def cancel(app: Application, request: commands.CancelWorkflow, caller: Caller) -> Workflow:
    await _find(app, request.workflow_id, caller)
    asked = commands.CancelJob(job_id=request.workflow_id, note=request.note, if_match=request.if_match)
    return _workflow(await control.cancel(app, asked, caller))


@handles(methods.WORKFLOWS_RUN_NOW)
async def run_now(app: Application, request: commands.RunWorkflow, caller: Caller) -> WorkflowRunAccepted:
    await _find(app, request.workflow_id, caller)
    asked = commands.RunNow(
        job_id=request.workflow_id, parameters=request.parameters, idempotency_key=request.idempotency_key
    )
    run_id, sequence = await control.ask_for_run(app, asked, caller)
    return WorkflowRunAccepted(workflow_run_id=run_id, epoch=await _epoch(app, run_id, sequence, caller))


async def _epoch(app: Application, run_id: str, after: int, caller: Caller) -> int | None:
    """Which wave a run became: as soon as the owner has said so, or as it was said the first time."""
    news: News = asyncio.Queue()
    with suppress(TimeoutError, ReadModelsAway):
        async with asyncio.timeout(_PATIENCE), and_events(app, run_id, after, news):
            known = await runs.one(app.pool, caller.namespace, run_id)
            while known is None or known.epoch is None:
                epoch = getattr(await news.get(), "epoch", None)
                if epoch is not None:
                    return int(epoch)
            return known.epoch
    return None


async def _find(app: Application, workflow_id: str, caller: Caller) -> spec.Workflow:
    definition = await jobs.find(app, workflow_id, caller)
    task = definition.job.spec.task
    if not isinstance(task, spec.Workflow):
        raise NotFound.because(f"{workflow_id} is a job, not a workflow")
    return task


def _workflow(job: Job) -> Workflow:
    if not isinstance(job.task, spec.Workflow):
        raise NotFound.because(f"{job.job_id} is a job, not a workflow")
    shared = {
        name: value for name, value in structs.asdict(job).items() if name in Workflow.__struct_fields__
    }
    return Workflow(**shared, workflow_id=job.job_id, nodes=job.task.nodes)
