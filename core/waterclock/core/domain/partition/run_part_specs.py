"""What the nodes and members of a run are to do, worked out from the state: the same after a retry and a takeover."""

from typing import Any

from msgspec import UNSET

from waterclock.core.domain.ids import member_index, node_of, part_path
from waterclock.core.domain.partition.definition_cache import Definition
from waterclock.core.domain.partition.run_parts import NodeEnd, WorkflowRunState
from waterclock.core.domain.partition.state import PartitionState, Run
from waterclock.core.domain.workflow.conditions import Unusable
from waterclock.core.domain.workflow.fan_out_source import Counted, Lines, Listed, Source, source_of
from waterclock.core.domain.workflow.node_specs import filled, node_spec, parameters_of, scope_of
from waterclock.core.domain.workflow.references import expanded_node
from waterclock.proto.spec import FanOut, JobSpec

_STATUS = {"success": "SUCCESS", "failed": "FAILED", "skipped": "SKIPPED", "blocked": "SKIPPED"}


def spec_of_run(state: PartitionState, run: Run, definition: Definition) -> JobSpec:
    """The definition of a run's work. Raises Unusable where a template has no value. A part that is to be stopped has
    one even when the whole has ended, without values: nobody runs it, but whoever gets it asks what became of it."""
    parent = state.runs.get(run.parent or "")
    if parent is None or not parent.parts:
        if run.trigger in ("workflow", "fan_out"):
            if not run.cancelling:
                raise Unusable("what it was part of has ended")
            return definition.spec if definition.shape is None else _node_of_part(run, definition)
        return definition.spec
    if parent.parts == "fan_out":
        return spec_of_member(state, parent, definition, member_index(run.run_id), run.item)
    node = definition.node(node_of(run.run_id))
    spec = node_spec(definition.spec, node)
    return spec if spec.fan_out is not None else filled(spec, node_scope(state, parent, definition, node.id))


def _node_of_part(run: Run, definition: Definition) -> JobSpec:
    return node_spec(definition.spec, definition.node(part_path(run.run_id)[0]))


def spec_of_member(
    state: PartitionState, run: Run, definition: Definition, index: int, item: Any = None
) -> JobSpec:
    """The definition of one member of a fan-out; `item` where it comes from a file."""
    match source := source_in(state, run, definition):
        case Listed():
            item = source.items[index]
        case Counted():
            item = index
        case Lines():
            pass
    parent = state.runs.get(run.parent or "")
    if parent is not None and parent.parts == "wave":
        node = definition.node(node_of(run.run_id))
        scope = node_scope(state, parent, definition, node.id, item, index)
        return filled(node_spec(definition.spec, node), scope, item)
    scope = scope_of(
        run_id=run.run_id,
        scheduled=run.scheduled,
        epoch=run.epoch,
        parameters=run.parameters if run.parameters is not None else {},
        nodes={},
        item=item,
        index=index,
    )
    return filled(definition.spec, scope, item)


def policy_in(state: PartitionState, run: Run, definition: Definition) -> FanOut:
    """How a fan-out is to be done: a node's `map`, or its job's `fan_out`."""
    in_workflow = run.parent in state.workflow_runs
    policy = definition.node(node_of(run.run_id)).map if in_workflow else definition.spec.fan_out
    if policy is None:
        raise Unusable("there is nothing to expand over")
    return policy


def source_in(state: PartitionState, run: Run, definition: Definition) -> Source:
    """What a fan-out goes over."""
    policy = policy_in(state, run, definition)
    return _source(policy, state.workflow_runs.get(run.parent or ""))


def member_count(state: PartitionState, spec: JobSpec, parent: str | None) -> int | None:
    """How many members a fan-out has that is about to open; None if that is not known yet, or never will be."""
    if spec.fan_out is None:
        return None
    try:
        source = _source(spec.fan_out, state.workflow_runs.get(parent or ""))
    except Unusable:
        return None
    return None if isinstance(source, Lines) else len(source)


def node_scope(
    state: PartitionState,
    run: Run,
    definition: Definition,
    node_id: str,
    item: Any = UNSET,
    index: int | None = None,
) -> dict[str, Any]:
    """What the templates and the condition of a node of this workflow run can refer to."""
    ended = state.workflow_runs[run.run_id].nodes
    return scope_of(
        run_id=run.run_id,
        scheduled=run.scheduled,
        epoch=run.epoch,
        parameters=parameters_of(definition.spec, run.parameters),
        nodes={other: _status_and_output(ended.get(other)) for other in definition.reads(node_id)},
        item=item,
        index=index,
    )


def _status_and_output(end: NodeEnd | None) -> dict[str, Any]:
    if end is None:
        return {"status": "WAITING", "output": None}
    return {"status": end.status or _STATUS[end.outcome], "output": end.output}


def _source(policy: FanOut, workflow_run: WorkflowRunState | None) -> Source:
    """`workflow_run`: the one that the fan-out is a node of, if it is."""
    if workflow_run is None:
        return source_of(policy, None)
    node = expanded_node(policy)
    end = None if node is None else workflow_run.nodes.get(node)
    return source_of(policy, None if end is None else end.output)
