"""Waves: the runs of a workflow, node by node."""

import secrets
from typing import Any

from msgspec import UNSET

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.commands import control
from waterclock.api.errors import Conflict, Invalid, NotFound
from waterclock.api.queries import runs
from waterclock.api.readmodels import runs as rows
from waterclock.api.readmodels import workflow_runs
from waterclock.api.readmodels.workflow_runs import Wave
from waterclock.api.registry import handles
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.workflow.rerun import outcomes, to_run_again
from waterclock.core.domain.workflow.shape import shape_of
from waterclock.core.runtime.clock import now_us
from waterclock.proto import commands, methods, names, queries, spec
from waterclock.proto.answers import MapProgress, NodeRun, Page, Run, WorkflowRun
from waterclock.proto.events import NodeCleared, NodeMarked, NodeStands, RerunRequested, RunEvent
from waterclock.proto.verdicts import TERMINAL, RunStatus

_NAMED = 5


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
    run = await control.cancel_run(app, commands.CancelRun(run_id=request.workflow_run_id), caller)
    return await _shown(app, run, caller)


@handles(methods.WORKFLOW_RUNS_RERUN)
async def rerun(app: Application, request: commands.Rerun, caller: Caller) -> WorkflowRun:
    run = await runs.find(app, request.workflow_run_id, caller)
    event = await _again(app, run, request.nodes, caller, request.note)
    await app.requests.append(app.partition_of(run.run_id), [event])
    return await get(app, queries.WorkflowRunRef(workflow_run_id=run.run_id), caller)


@handles(methods.WORKFLOW_RUNS_MARK)
async def mark(app: Application, request: commands.MarkNode, caller: Caller) -> WorkflowRun:
    """In a wave that has ended, what comes after the node is run again."""
    run = await runs.find(app, request.workflow_run_id, caller)
    wave = await _wave(app, run, caller)
    if request.node not in {node.id for node in wave.nodes}:
        raise NotFound.because(f"{wave.workflow_id} has no node {request.node}")
    marked = NodeMarked(
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
    before: list[RunEvent] = []
    if run.status in TERMINAL:
        before.append(await _again(app, run, (request.node,), caller, request.note))
        before.append(NodeCleared(run_id=marked.run_id, at=marked.at, parent=run.run_id))
    else:
        node = (await workflow_runs.nodes(app.pool, run.run_id)).get(request.node)
        if node is not None and node.status in TERMINAL:
            raise Conflict.because(f"{request.node} is {node.status}; mark it when the wave has ended")
    await app.requests.append(app.partition_of(run.run_id), [*before, marked])
    return await get(app, queries.WorkflowRunRef(workflow_run_id=run.run_id), caller)


async def run_again(app: Application, found: list[rows.Redrivable], caller: Caller) -> list[rows.Redrivable]:
    """Waves, and nodes with the waves they are part of; answers the runs that are neither."""
    rest: list[rows.Redrivable] = []
    again: dict[str, set[str]] = {}
    for run in found:
        path = names.part_path(run.run_id)
        whole = run.run_id.removesuffix("".join(f"~{part}" for part in path))
        definition = await app.definitions.read(names.job_of(run.run_id))
        if definition is not None and isinstance(definition.job.spec.task, spec.Workflow):
            again.setdefault(whole, set()).update(path[:1])
        elif path:
            raise Conflict.because(f"{run.run_id} is a member of {whole}: run the whole job again")
        else:
            rest.append(run)
    for wave, nodes in again.items():
        event = await _again(app, await runs.find(app, wave, caller), tuple(nodes), caller, "")
        await app.requests.append(app.partition_of(wave), [event])
    return rest


async def why_waiting(app: Application, run_id: str, caller: Caller) -> tuple[str, str] | None:
    """(the wave, what a node of it waits for), if that is a node that has not begun."""
    path = names.part_path(run_id)
    if len(path) != 1:
        return None
    run = await runs.find(app, run_id.removesuffix(f"~{path[0]}"), caller)
    for node in (await _shown(app, run, caller)).nodes:
        if node.id == path[0] and node.status == "WAITING":
            return run.run_id, node.reason or "its turn has come"
    return None


async def _again(
    app: Application, run: Run, wanted: tuple[str, ...], caller: Caller, note: str
) -> RerunRequested:
    if run.status not in TERMINAL:
        raise Conflict.because(f"wave {run.run_id} is {run.status}; only one that has ended can be run again")
    wave = await _wave(app, run, caller)
    shape = shape_of(spec.Workflow(nodes=wave.nodes))
    for name in wanted:
        if name not in shape.nodes:
            raise Invalid.field("from", f"there is no node {name}")
    shown = {node.id: node for node in (await _shown(app, run, caller)).nodes}
    statuses = {name: node.status for name, node in shown.items()}
    cleared = to_run_again(shape, statuses, wanted)
    if not cleared:
        raise Conflict.because(f"every node of {run.run_id} has succeeded; name nodes to run them again")
    ended = outcomes(shape, statuses)
    return RerunRequested(
        run_id=run.run_id,
        at=now_us(),
        version=wave.version,
        scheduled=instant_of(run.scheduled_time) if run.scheduled_time else now_us(),
        epoch=run.epoch,
        parameters=await workflow_runs.parameters(app.pool, run.run_id),
        nodes={
            name: NodeStands(outcome=ended[name], output=node.output if name in shape.read else None)
            for name, node in shown.items()
            if name not in cleared
        },
        cleared={name: shown[name].attempt_number for name in cleared},
        actor=caller.actor,
        cause=secrets.token_hex(8),
        note=note,
    )


async def _wave(app: Application, run: Run, caller: Caller) -> Wave:
    """The wave's own definition: a run keeps the version it began with."""
    version = await rows.version(app.pool, run.run_id)
    definition = await app.definitions.at(run.job_id, version) or await app.definitions.read(run.job_id)
    task = None if definition is None else definition.job.spec.task
    if not isinstance(task, spec.Workflow):
        raise NotFound.because(f"{run.run_id} is a run of a job, not of a workflow")
    return Wave(workflow_id=run.job_id, version=version, nodes=task.nodes)


async def _shown(app: Application, run: Run, caller: Caller) -> WorkflowRun:
    wave = await _wave(app, run, caller)
    found = await workflow_runs.nodes(app.pool, run.run_id)
    return WorkflowRun(
        workflow_run_id=run.run_id,
        workflow_id=run.job_id,
        epoch=run.epoch,
        status=run.status,
        reason=run.reason,
        scheduled_time=run.scheduled_time,
        start_time=run.start_time,
        end_time=run.end_time,
        nodes=[_node(node, found, run) for node in wave.nodes],
        edges=[(upstream, node.id) for node in wave.nodes for upstream in node.depends_on],
    )


def _node(node: spec.Node, found: dict[str, Run], wave: Run) -> NodeRun:
    ran = found.get(node.id)
    if ran is None:
        status: RunStatus = "WAITING"
        if wave.status in TERMINAL:
            status = "CANCELLED" if wave.status == "CANCELLED" else "SKIPPED"
        reason = _waits(node, found) if status == "WAITING" else None
        return NodeRun(id=node.id, status=status, run_id=None, attempt_number=0, output=None, reason=reason)
    return NodeRun(
        id=node.id,
        status=ran.status,
        run_id=ran.run_id,
        attempt_number=ran.attempt_number,
        output=ran.output,
        reason=ran.reason,
        start_time=ran.start_time,
        end_time=ran.end_time,
        map=UNSET if node.map is None else _progress(ran.output),
    )


def _waits(node: spec.Node, found: dict[str, Run]) -> str | None:
    """What a node that has not begun waits for."""
    states = {up: found[up].status if up in found else "WAITING" for up in node.depends_on}
    open_ones = [f"{up} ({state})" for up, state in states.items() if state not in TERMINAL]
    if not open_ones:
        return None
    more = f", and {len(open_ones) - _NAMED} more" if len(open_ones) > _NAMED else ""
    return f"{node.trigger_rule}: waits for {', '.join(open_ones[:_NAMED])}{more}"


def _progress(output: Any) -> MapProgress:
    """How far a map is: what its run has for an output from the beginning."""
    match output:
        case {"total": int() as total, "done": int() as done, "failed": int() as failed}:
            return MapProgress(total=total, done=done, failed=failed)
        case _:
            return MapProgress(total=None, done=0, failed=0)
