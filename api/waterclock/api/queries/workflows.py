"""Looking at workflows and their runs, node by node. A workflow is a job whose runs are workflow runs."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import NotFound
from waterclock.api.queries import jobs, runs
from waterclock.api.readmodels import jobs as job_rows
from waterclock.api.readmodels import runs as run_rows
from waterclock.api.registry import handles
from waterclock.api.views import job_from_row
from waterclock.core.domain import ids
from waterclock.core.domain.workflow.layout import lay_out
from waterclock.proto import methods, queries, spec
from waterclock.proto.answers import (
    Graph,
    GraphEdge,
    GraphNode,
    Job,
    MapProgress,
    NodeRun,
    Page,
    Run,
    Workflow,
    WorkflowRun,
)
from waterclock.proto.verdicts import TERMINAL, RunStatus

_UPSTREAMS_NAMED = 5
_SUMMARY = 120


class RunDefinition(Struct, frozen=True, kw_only=True):
    """The version of a workflow that one of its runs began with, and keeps."""

    version: int
    nodes: tuple[spec.Node, ...]


@handles(methods.WORKFLOWS_LIST)
async def list_workflows(app: Application, request: queries.JobsQuery, caller: Caller) -> Page[Workflow]:
    await app.freshness.of_own_definitions()
    found, cursor = await job_rows.page(app.pool, caller.namespace, request, workflows=True)
    return Page(items=[workflow_of(job_from_row(row)) for row in found], next_cursor=cursor)


@handles(methods.WORKFLOWS_GET)
async def get(app: Application, request: queries.WorkflowRef, caller: Caller) -> Workflow:
    return workflow_of(await jobs.get(app, queries.JobRef(job_id=request.workflow_id), caller))


@handles(methods.WORKFLOWS_RUNS)
async def list_runs(
    app: Application, request: queries.WorkflowRunsQuery, caller: Caller
) -> Page[WorkflowRun]:
    query = queries.RunsQuery(
        job_id=request.workflow_id, status=request.status, limit=request.limit, cursor=request.cursor
    )
    page = await runs.list_runs(app, query, caller)
    return Page(items=[await workflow_run(app, run) for run in page.items], next_cursor=page.next_cursor)


@handles(methods.WORKFLOW_RUNS_GET)
async def get_run(app: Application, request: queries.WorkflowRunRef, caller: Caller) -> WorkflowRun:
    return await workflow_run(app, await runs.find(app, request.workflow_run_id, caller))


@handles(methods.WORKFLOWS_GRAPH)
async def graph(app: Application, request: queries.WorkflowRef, caller: Caller) -> Graph:
    definition = await jobs.find(app, request.workflow_id, caller)
    task = definition.job.spec.task
    if not isinstance(task, spec.Workflow):
        raise NotFound.because(f"{request.workflow_id} is a job, not a workflow")
    return await asyncio.to_thread(_graph, task.nodes, definition.version)


@handles(methods.WORKFLOW_RUNS_GRAPH)
async def graph_of_run(app: Application, request: queries.WorkflowRunRef, caller: Caller) -> Graph:
    definition = await definition_of_run(app, await runs.find(app, request.workflow_run_id, caller))
    return await asyncio.to_thread(_graph, definition.nodes, definition.version)


def _graph(nodes: Sequence[spec.Node], version: int) -> Graph:
    edges = [(upstream, node.id) for node in nodes for upstream in node.depends_on]
    layout = lay_out([node.id for node in nodes], edges)
    return Graph(
        nodes=[
            GraphNode(
                id=node.id,
                layer=layout.nodes[node.id][0],
                row=layout.nodes[node.id][1],
                runs=node.task.summary[:_SUMMARY],
                is_map=node.map is not None,
            )
            for node in nodes
        ],
        edges=[GraphEdge(start=a, end=b, bends=layout.bends.get((a, b), ())) for a, b in edges],
        layers=layout.layers,
        height=layout.height,
        version=version,
    )


async def find(app: Application, workflow_id: str, caller: Caller) -> spec.Workflow:
    """The workflow a command is about."""
    definition = await jobs.find(app, workflow_id, caller)
    task = definition.job.spec.task
    if not isinstance(task, spec.Workflow):
        raise NotFound.because(f"{workflow_id} is a job, not a workflow")
    return task


async def definition_of_run(app: Application, run: Run) -> RunDefinition:
    version = await run_rows.version(app.pool, run.run_id)
    definition = await app.definitions.at(run.job_id, version) or await app.definitions.read(run.job_id)
    task = None if definition is None else definition.job.spec.task
    if not isinstance(task, spec.Workflow):
        raise NotFound.because(f"{run.run_id} is a run of a job, not of a workflow")
    return RunDefinition(version=version, nodes=task.nodes)


async def why_waiting(app: Application, run_id: str, caller: Caller) -> tuple[str, str] | None:
    """The workflow run of a node that has not begun, and what the node waits for; None if it is no such node."""
    path = ids.part_path(run_id)
    if len(path) != 1:
        return None
    run = await runs.find(app, run_id.removesuffix(f"~{path[0]}"), caller)
    for node in (await workflow_run(app, run)).nodes:
        if node.id == path[0] and node.status == "WAITING":
            return run.run_id, node.reason or "its turn has come"
    return None


def workflow_of(job: Job) -> Workflow:
    if not isinstance(job.task, spec.Workflow):
        raise NotFound.because(f"{job.job_id} is a job, not a workflow")
    shared = {
        name: value for name, value in structs.asdict(job).items() if name in Workflow.__struct_fields__
    }
    return Workflow(**shared, workflow_id=job.job_id, nodes=job.task.nodes)


async def workflow_run(app: Application, run: Run) -> WorkflowRun:
    """A run of a workflow with its nodes, those that have not begun included."""
    definition = await definition_of_run(app, run)
    found = await run_rows.nodes(app.pool, run.run_id)
    return WorkflowRun(
        workflow_run_id=run.run_id,
        workflow_id=run.job_id,
        epoch=run.epoch,
        status=run.status,
        reason=run.reason,
        scheduled_time=run.scheduled_time,
        start_time=run.start_time,
        end_time=run.end_time,
        nodes=[_node(node, found, run) for node in definition.nodes],
        edges=[(upstream, node.id) for node in definition.nodes for upstream in node.depends_on],
    )


def _node(node: spec.Node, found: dict[str, Run], whole: Run) -> NodeRun:
    ran = found.get(node.id)
    if ran is None:
        status: RunStatus = "WAITING"
        if whole.status in TERMINAL:
            status = "CANCELLED" if whole.status == "CANCELLED" else "SKIPPED"
        reason = _waits_for(node, found) if status == "WAITING" else None
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
        map=UNSET if node.map is None else _map_progress(ran.output),
    )


def _waits_for(node: spec.Node, found: dict[str, Run]) -> str | None:
    """What a node that has not begun waits for."""
    states = {up: found[up].status if up in found else "WAITING" for up in node.depends_on}
    unfinished = [f"{up} ({state})" for up, state in states.items() if state not in TERMINAL]
    if not unfinished:
        return None
    more = len(unfinished) - _UPSTREAMS_NAMED
    rest = f", and {more} more" if more > 0 else ""
    return f"{node.trigger_rule}: waits for {', '.join(unfinished[:_UPSTREAMS_NAMED])}{rest}"


def _map_progress(output: Any) -> MapProgress:
    """How far a map is: the run of a mapped node has this for its output from the beginning."""
    match output:
        case {"total": int() as total, "done": int() as done, "failed": int() as failed}:
            return MapProgress(total=total, done=done, failed=failed)
        case _:
            return MapProgress(total=None, done=0, failed=0)
