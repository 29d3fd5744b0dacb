"""Changing workflows and steering their runs. A workflow is a job whose runs are workflow runs: what holds for jobs
holds here, in a workflow's words. The partition's owner acts on what is asked of a run."""

import asyncio
import logging
import secrets

from msgspec import UNSET, structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands import create as create_job
from waterclock.api.commands import jobs, runs
from waterclock.api.errors import Conflict, Invalid, NotFound
from waterclock.api.queries import runs as run_queries
from waterclock.api.queries import workflows
from waterclock.api.queries.definitions import versions
from waterclock.api.queries.run_log import RunFeed, follow_events
from waterclock.api.readmodels import runs as rows
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.core.domain import ids
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.workflow.shape import outcomes, shape_of, to_run_again
from waterclock.core.runtime.clock import now_us
from waterclock.proto import commands, methods, queries, spec
from waterclock.proto.answers import Run, Workflow, WorkflowAccepted, WorkflowRun, WorkflowRunAccepted
from waterclock.proto.events import NodeCleared, NodeMarked, NodeStands, RerunRequested, RunEvent
from waterclock.proto.spec import JobRequest
from waterclock.proto.verdicts import TERMINAL

_EPOCH_PATIENCE = 2.0
log = logging.getLogger(__name__)


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
        warnings=accepted.warnings,
    )


@handles(methods.WORKFLOWS_UPDATE)
async def update(app: Application, request: commands.WorkflowPatch, caller: Caller) -> Workflow:
    await workflows.find(app, request.workflow_id, caller)
    fields = {name: getattr(request, name) for name in JobRequest.__struct_fields__}
    fields |= {"job_id": request.workflow_id, "workflow_id": UNSET}
    patch = commands.JobPatch(**fields, if_match=request.if_match)
    updated = await jobs.update(app, patch, caller)
    return structs.replace(workflows.workflow_of(updated), warnings=updated.warnings)


@handles(methods.WORKFLOWS_ROLLBACK)
async def rollback(app: Application, request: commands.WorkflowRollback, caller: Caller) -> Workflow:
    await versions.workflow_at(app, request.workflow_id, request.version, caller)
    wanted = commands.Rollback(job_id=request.workflow_id, version=request.version, if_match=request.if_match)
    restored = await jobs.rollback(app, wanted, caller)
    return structs.replace(workflows.workflow_of(restored), warnings=restored.warnings)


@handles(methods.WORKFLOWS_CANCEL)
async def cancel(app: Application, request: commands.CancelWorkflow, caller: Caller) -> Workflow:
    await workflows.find(app, request.workflow_id, caller)
    cancellation = commands.CancelJob(
        job_id=request.workflow_id, note=request.note, if_match=request.if_match
    )
    return workflows.workflow_of(await jobs.cancel(app, cancellation, caller))


@handles(methods.WORKFLOWS_RUN_NOW)
async def run_now(app: Application, request: commands.RunWorkflow, caller: Caller) -> WorkflowRunAccepted:
    await workflows.find(app, request.workflow_id, caller)
    run = commands.RunNow(
        job_id=request.workflow_id, parameters=request.parameters, idempotency_key=request.idempotency_key
    )
    run_id, sequence = await runs.request_run(app, run, caller)
    return WorkflowRunAccepted(workflow_run_id=run_id, epoch=await _epoch(app, run_id, sequence, caller))


@handles(methods.WORKFLOW_RUNS_CANCEL)
async def cancel_run(app: Application, request: queries.WorkflowRunRef, caller: Caller) -> WorkflowRun:
    run = await runs.cancel(app, commands.CancelRun(run_id=request.workflow_run_id), caller)
    return await workflows.workflow_run(app, run)


@handles(methods.WORKFLOW_RUNS_RERUN)
async def rerun(app: Application, request: commands.Rerun, caller: Caller) -> WorkflowRun:
    run = await run_queries.find(app, request.workflow_run_id, caller)
    event = await _rerun_requested(app, run, request.nodes, caller, request.note)
    await app.run_requests.append(app.partition_of(run.run_id), [event])
    return await workflows.workflow_run(app, await run_queries.find(app, run.run_id, caller))


@handles(methods.WORKFLOW_RUNS_MARK)
async def mark(app: Application, request: commands.MarkNode, caller: Caller) -> WorkflowRun:
    """Say how a node ended. In a workflow run that has ended, what comes after the node is run again."""
    run = await run_queries.find(app, request.workflow_run_id, caller)
    definition = await workflows.definition_of_run(app, run)
    if request.node not in {node.id for node in definition.nodes}:
        raise NotFound.because(f"{run.job_id} has no node {request.node}")
    marked = NodeMarked(
        run_id=ids.node_run(run.run_id, request.node),
        at=now_us(),
        version=definition.version,
        scheduled=instant_of(run.scheduled_time) if run.scheduled_time else now_us(),
        succeeded=request.status == "SUCCESS",
        parent=run.run_id,
        epoch=run.epoch,
        output=request.output,
        actor=caller.actor,
        cause=secrets.token_hex(8),
        note=request.note,
    )
    before: list[RunEvent] = []
    if run.status in TERMINAL:
        before.append(await _rerun_requested(app, run, (request.node,), caller, request.note))
        before.append(NodeCleared(run_id=marked.run_id, at=marked.at, parent=run.run_id))
    else:
        node = (await rows.nodes(app.pool, run.run_id)).get(request.node)
        if node is not None and node.status in TERMINAL:
            raise Conflict.because(f"{request.node} is {node.status}; mark it when the wave has ended")
    await app.run_requests.append(app.partition_of(run.run_id), [*before, marked])
    return await workflows.workflow_run(app, await run_queries.find(app, run.run_id, caller))


async def rerun_workflow_runs(
    app: Application, found: list[rows.Redrivable], caller: Caller
) -> list[rows.Redrivable]:
    """Run workflow runs again, and nodes with the workflow runs they are part of; returns the runs that are neither."""
    rest: list[rows.Redrivable] = []
    again: dict[str, set[str]] = {}
    for run in found:
        path = ids.part_path(run.run_id)
        whole = run.run_id.removesuffix("".join(f"~{part}" for part in path))
        definition = await app.definitions.read(ids.job_of(run.run_id))
        if definition is not None and isinstance(definition.job.spec.task, spec.Workflow):
            again.setdefault(whole, set()).update(path[:1])
        elif path:
            raise Conflict.because(f"{run.run_id} is a member of {whole}: run the whole job again")
        else:
            rest.append(run)
    for run_id, nodes in again.items():
        await rerun_workflow_run(app, run_id, tuple(nodes), caller)
    return rest


async def rerun_workflow_run(app: Application, run_id: str, nodes: tuple[str, ...], caller: Caller) -> None:
    """From these nodes on, or from what has not succeeded."""
    run = await run_queries.find(app, run_id, caller)
    event = await _rerun_requested(app, run, nodes, caller, "")
    await app.run_requests.append(app.partition_of(run_id), [event])


async def _epoch(app: Application, run_id: str, after: int, caller: Caller) -> int | None:
    """Which epoch of its workflow a run became: from the owner's event, or from the read models if it is a repeat."""
    feed = RunFeed()
    try:
        async with asyncio.timeout(_EPOCH_PATIENCE), follow_events(app, run_id, after, feed):
            known = await rows.one(app.pool, caller.namespace, run_id)
            while known is None or known.epoch is None:
                epoch = getattr(await feed.next(), "epoch", None)
                if epoch is not None:
                    return int(epoch)
            return known.epoch
    except (TimeoutError, ReadModelsAway):
        return None
    except Exception:
        # The run is accepted: to answer with an error because its epoch is not known would be wrong.
        log.exception("cannot follow the events of a run", extra={"run_id": run_id})
        return None


async def _rerun_requested(
    app: Application, run: Run, wanted: tuple[str, ...], caller: Caller, note: str
) -> RerunRequested:
    """The request to run these nodes again and what comes after them; without any, what has not succeeded."""
    if run.status not in TERMINAL:
        raise Conflict.because(f"wave {run.run_id} is {run.status}; only one that has ended can be run again")
    definition = await workflows.definition_of_run(app, run)
    shape = shape_of(spec.Workflow(nodes=definition.nodes))
    for name in wanted:
        if name not in shape.nodes:
            raise Invalid.field("from", f"there is no node {name}")
    nodes = {node.id: node for node in (await workflows.workflow_run(app, run)).nodes}
    statuses = {name: node.status for name, node in nodes.items()}
    cleared = to_run_again(shape, statuses, wanted)
    if not cleared:
        raise Conflict.because(f"every node of {run.run_id} has succeeded; name nodes to run them again")
    ended = outcomes(shape, statuses)
    return RerunRequested(
        run_id=run.run_id,
        at=now_us(),
        version=definition.version,
        scheduled=instant_of(run.scheduled_time) if run.scheduled_time else now_us(),
        epoch=run.epoch,
        parameters=await rows.parameters(app.pool, run.run_id),
        nodes={
            name: NodeStands(outcome=ended[name], output=node.output if name in shape.read else None)
            for name, node in nodes.items()
            if name not in cleared
        },
        cleared={name: nodes[name].attempt_number for name in cleared},
        actor=caller.actor,
        cause=secrets.token_hex(8),
        note=note,
    )
