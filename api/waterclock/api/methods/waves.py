"""Waves: the runs of a workflow, node by node."""

import secrets
from typing import Literal

from msgspec import UNSET

from waterclock.api.application import Application
from waterclock.api.caller import Caller
from waterclock.api.errors import Conflict, Invalid, NotFound
from waterclock.api.explain.history import run_events
from waterclock.api.methods import control, runs
from waterclock.api.readmodels import runs as rows
from waterclock.api.readmodels import waves
from waterclock.api.readmodels.waves import Wave
from waterclock.api.registry import handles
from waterclock.core.domain.instants import instant_of
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods, names, queries, spec
from waterclock.proto.answers import ENDED, MapProgress, NodeRun, Page, Run, RunState, WorkflowRun
from waterclock.proto.events import NodeMarked, NodeStands, RerunRequested, RunOpened, RunRequested

_OUTCOMES: dict[RunState, Literal["success", "failed", "skipped", "blocked"]] = {
    "SUCCESS": "success",
    "SKIPPED": "skipped",
}


@handles(methods.WORKFLOWS_RUNS)
async def list_waves(
    app: Application, request: queries.WorkflowRunsQuery, caller: Caller
) -> Page[WorkflowRun]:
    asked = queries.RunsQuery(
        job_id=request.workflow_id, status=request.status, limit=request.limit, cursor=request.cursor
    )
    page = await runs.list_runs(app, asked, caller)
    shown = [await _shown(app, run, caller) for run in page.items]
    return Page(items=shown, next_cursor=page.next_cursor)


@handles(methods.WORKFLOW_RUNS_GET)
async def get(app: Application, request: queries.WorkflowRunRef, caller: Caller) -> WorkflowRun:
    return await _shown(app, await runs.find(app, request.workflow_run_id, caller), caller)


@handles(methods.WORKFLOW_RUNS_CANCEL)
async def cancel(app: Application, request: queries.WorkflowRunRef, caller: Caller) -> WorkflowRun:
    run = await control.cancel_run(app, queries.CancelRun(run_id=request.workflow_run_id), caller)
    return await _shown(app, run, caller)


@handles(methods.WORKFLOW_RUNS_RERUN)
async def rerun(app: Application, request: queries.Rerun, caller: Caller) -> WorkflowRun:
    run = await runs.find(app, request.workflow_run_id, caller)
    if run.status not in ENDED:
        raise Conflict.because(f"wave {run.run_id} is {run.status}; only one that has ended can be run again")
    wave = await _wave(app, run, caller)
    shown = {node.id: node for node in (await _shown(app, run, caller)).nodes}
    cleared = _cleared(wave.nodes, shown, request.nodes)
    if not cleared:
        raise Conflict.because(f"every node of {run.run_id} has succeeded; name nodes to run them again")
    event = RerunRequested(
        run_id=run.run_id,
        at=now_us(),
        version=wave.version,
        scheduled=instant_of(run.scheduled_time) if run.scheduled_time else now_us(),
        epoch=run.epoch,
        parameters=await _parameters(app, run.run_id),
        nodes={
            name: NodeStands(outcome=_OUTCOMES.get(node.status, "failed"), output=node.output)
            for name, node in shown.items()
            if name not in cleared
        },
        cleared={name: shown[name].attempt_number for name in cleared},
        actor=caller.actor,
        cause=secrets.token_hex(8),
        note=request.note,
    )
    await app.requests.append(app.partition_of(run.run_id), [event])
    return await get(app, queries.WorkflowRunRef(workflow_run_id=run.run_id), caller)


@handles(methods.WORKFLOW_RUNS_MARK)
async def mark(app: Application, request: queries.MarkNode, caller: Caller) -> WorkflowRun:
    run = await runs.find(app, request.workflow_run_id, caller)
    wave = await _wave(app, run, caller)
    if request.node not in {node.id for node in wave.nodes}:
        raise NotFound.because(f"{wave.workflow_id} has no node {request.node}")
    if run.status in ENDED:
        raise Conflict.because(f"wave {run.run_id} is {run.status}; run it again instead")
    event = NodeMarked(
        run_id=names.node_run(run.run_id, request.node),
        at=now_us(),
        version=wave.version,
        scheduled=instant_of(run.scheduled_time) if run.scheduled_time else now_us(),
        succeeded=request.status == "SUCCESS",
        parent=run.run_id,
        epoch=run.epoch,
        output=request.output,
        actor=caller.actor,
        cause=secrets.token_hex(8),
        note=request.note,
    )
    await app.requests.append(app.partition_of(run.run_id), [event])
    return await get(app, queries.WorkflowRunRef(workflow_run_id=run.run_id), caller)


async def _wave(app: Application, run: Run, caller: Caller) -> Wave:
    """The wave's own definition: a run keeps the version it began with."""
    version = await rows.version(app.pool, run.run_id)
    definition = await app.ledger.at(run.job_id, version) or await app.ledger.read(run.job_id)
    task = None if definition is None else definition.job.spec.task
    if not isinstance(task, spec.Workflow):
        raise NotFound.because(f"{run.run_id} is a run of a job, not of a workflow")
    return Wave(workflow_id=run.job_id, version=version, nodes=task.nodes)


async def _shown(app: Application, run: Run, caller: Caller) -> WorkflowRun:
    wave = await _wave(app, run, caller)
    found = await waves.nodes(app.pool, run.run_id)
    mapped = [found[node.id].run_id for node in wave.nodes if node.map is not None and node.id in found]
    members = await waves.members(app.pool, mapped)
    return WorkflowRun(
        workflow_run_id=run.run_id,
        workflow_id=run.job_id,
        epoch=run.epoch,
        status=run.status,
        reason=run.reason,
        scheduled_time=run.scheduled_time,
        start_time=run.start_time,
        end_time=run.end_time,
        nodes=[_node(node, found.get(node.id), run, members) for node in wave.nodes],
        edges=[(upstream, node.id) for node in wave.nodes for upstream in node.depends_on],
    )


def _node(node: spec.Node, ran: Run | None, wave: Run, members: dict[str, MapProgress]) -> NodeRun:
    if ran is None:
        status: RunState = "SKIPPED" if wave.status in ENDED else "WAITING"
        return NodeRun(id=node.id, status=status, run_id=None, attempt_number=0, output=None, reason=None)
    return NodeRun(
        id=node.id,
        status=ran.status,
        run_id=ran.run_id,
        attempt_number=ran.attempt_number,
        output=ran.output,
        reason=ran.reason,
        start_time=ran.start_time,
        end_time=ran.end_time,
        map=UNSET if node.map is None else members.get(ran.run_id, MapProgress(total=None, done=0, failed=0)),
    )


def _cleared(nodes: tuple[spec.Node, ...], shown: dict[str, NodeRun], wanted: tuple[str, ...]) -> set[str]:
    """What is run again: the nodes asked for, or those that did not succeed, and all that depend on them."""
    for name in wanted:
        if name not in shown:
            raise Invalid.field("nodes", f"there is no node {name}")
    cleared = set(wanted) or {
        name for name, node in shown.items() if node.status not in ("SUCCESS", "SKIPPED")
    }
    grown = True
    while grown:
        below = {node.id for node in nodes if cleared & set(node.depends_on)} - cleared
        cleared |= below
        grown = bool(below)
    return cleared


async def _parameters(app: Application, run_id: str) -> object:
    """What the wave was started with."""
    events = await run_events(app, run_id, await rows.first_sequence(app.pool, run_id) - 1)
    for _, event in events:
        if isinstance(event, RunOpened | RunRequested | RerunRequested) and event.parameters is not None:
            return event.parameters
    return None
