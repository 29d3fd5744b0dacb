"""What the parts of a run are to do, worked out from the state: the same after a retry, and after a takeover."""

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Struct

from waterclock.core.domain.partition.parts import NodeEnd, Wave, node_of
from waterclock.core.domain.partition.state import PartitionState, Run
from waterclock.core.domain.workflow.expression import Unusable
from waterclock.core.domain.workflow.fan_out import Counted, Lines, Listed, Source, source_of
from waterclock.core.domain.workflow.node_specs import filled, node_spec, parameters_of, scope_of
from waterclock.core.domain.workflow.references import expanded_node
from waterclock.core.domain.workflow.shape import Shape
from waterclock.proto.names import member_index
from waterclock.proto.spec import JobSpec, Node

_STATUS = {"success": "SUCCESS", "failed": "FAILED", "skipped": "SKIPPED", "blocked": "SKIPPED"}


class Definition(Struct, frozen=True):
    """A job's definition at a version; its graph, if it is a workflow."""

    spec: JobSpec
    shape: Shape | None = None

    def node(self, node_id: str) -> Node:
        if self.shape is None or node_id not in self.shape.nodes:
            raise Unusable(f"the definition has no node '{node_id}'")
        return self.shape.nodes[node_id]

    def reads(self, node_id: str) -> Iterable[str]:
        return () if self.shape is None else self.shape.reads[node_id]


def derive(state: PartitionState, run: Run, definition: Definition) -> JobSpec:
    """The definition of a run's work. Raises Unusable where a template has no value."""
    parent = state.runs.get(run.parent or "")
    if parent is None or not parent.parts:
        if run.trigger in ("workflow", "fan_out"):
            raise Unusable("what it was part of has ended")
        return definition.spec
    if parent.parts == "fan_out":
        return member(state, parent, definition, member_index(run.run_id), run.item)
    node = definition.node(node_of(run.run_id))
    spec = node_spec(definition.spec, node)
    return spec if spec.fan_out is not None else filled(spec, scope_in(state, parent, definition, node.id))


def member(state: PartitionState, run: Run, definition: Definition, index: int, item: Any = None) -> JobSpec:
    """The definition of one member of a fan-out; `item` where it comes from a file."""
    match source := source_in(state, run, definition):
        case Listed():
            item = source.items[index]
        case Counted():
            item = index
        case Lines():
            pass
    wave = state.runs.get(run.parent or "")
    if wave is not None and wave.parts == "wave":
        node = definition.node(node_of(run.run_id))
        scope = scope_in(state, wave, definition, node.id, item, index)
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


def source_in(state: PartitionState, run: Run, definition: Definition) -> Source:
    """What a fan-out goes over."""
    wave = state.waves.get(run.parent or "")
    expansion = definition.spec.fan_out if wave is None else definition.node(node_of(run.run_id)).map
    if expansion is None:
        raise Unusable("there is nothing to expand over")
    return source_of(expansion, None if wave is None else _output(wave, expanded_node(expansion)))


def total_of(state: PartitionState, spec: JobSpec, parent: str | None) -> int | None:
    """How many members a fan-out has that is about to open; None if that is not known yet, or never will be."""
    if spec.fan_out is None:
        return None
    wave = state.waves.get(parent or "")
    try:
        source = source_of(spec.fan_out, None if wave is None else _output(wave, expanded_node(spec.fan_out)))
    except Unusable:
        return None
    return None if isinstance(source, Lines) else len(source)


def scope_in(
    state: PartitionState,
    wave_run: Run,
    definition: Definition,
    node_id: str,
    item: Any = UNSET,
    index: int | None = None,
) -> dict[str, Any]:
    """What a node's templates and condition can refer to."""
    ended = state.waves[wave_run.run_id].nodes
    return scope_of(
        run_id=wave_run.run_id,
        scheduled=wave_run.scheduled,
        epoch=wave_run.epoch,
        parameters=parameters_of(definition.spec, wave_run.parameters),
        nodes={other: _seen(ended.get(other)) for other in definition.reads(node_id)},
        item=item,
        index=index,
    )


def _seen(end: NodeEnd | None) -> dict[str, Any]:
    if end is None:
        return {"status": "WAITING", "output": None}
    return {"status": end.status or _STATUS[end.outcome], "output": end.output}


def _output(wave: Wave, node: str | None) -> Any:
    end = None if node is None else wave.nodes.get(node)
    return None if end is None else end.output
