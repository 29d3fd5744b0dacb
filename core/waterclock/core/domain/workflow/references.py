"""What a node's texts refer to: other nodes, parameters, the item of a map. Checked when a workflow is defined."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from waterclock.core.domain.workflow.conditions import ROOTS, Path, Unusable, expression_of
from waterclock.core.domain.workflow.template import paths_in, texts_of
from waterclock.proto.spec import FanOut, Node

_OF_NODES = ("output", "status")


class Complaints(Protocol):
    def add(self, field: str, reason: str) -> None: ...


def paths_of(node: Node) -> Iterator[Path]:
    """Raises Unusable for a condition that cannot be read."""
    yield from paths_in(texts_of(node.task, node.payload))
    if node.condition is not None:
        yield from expression_of(node.condition).paths


def nodes_read_by(node: Node) -> frozenset[str]:
    """The nodes whose output or status this one refers to. One whose texts cannot be read refers to none: it fails by
    itself when its turn comes."""
    try:
        found = {str(path.steps[0]) for path in paths_of(node) if path.root == "nodes" and path.steps}
    except Unusable:
        found = set()
    if (source := expanded_node(node.map)) is not None:
        found.add(source)
    return frozenset(found)


def expanded_node(expansion: FanOut | None) -> str | None:
    match expansion:
        case FanOut(over={"from": str() as node}):
            return node
        case _:
            return None


def check_references(nodes: Sequence[Node], problems: Complaints) -> None:
    """Templates and conditions refer to what there is, and only to nodes that come before."""
    order = _Order({node.id: node.depends_on for node in nodes})
    for place, node in enumerate(nodes):
        try:
            for path in paths_of(node):
                if (wrong := _wrong(path, node, order)) is not None:
                    problems.add(f"nodes[{place}]", f"{{{{ {path.text} }}}}: {wrong}")
        except Unusable as error:
            problems.add(
                f"nodes[{place}]" if node.condition is None else f"nodes[{place}].condition", str(error)
            )


def _wrong(path: Path, node: Node, order: "_Order") -> str | None:
    if path.root not in ROOTS:
        return f"there is no {path.root}; there are {', '.join(ROOTS)}"
    if path.root in ("item", "index") and node.map is None:
        return "only a node with a map has items"
    if path.root != "nodes":
        return None
    if len(path.steps) < 2 or path.steps[1] not in _OF_NODES:
        return "say nodes.<id>.output or nodes.<id>.status"
    upstream = str(path.steps[0])
    if upstream not in order:
        return f"there is no node '{upstream}'"
    if not order.precedes(upstream, node.id):
        return f"'{upstream}' does not come before '{node.id}': add it to depends_on"
    return None


class _Order:
    """Which nodes come before which, near and far: one bit each, as a workflow may have thousands of nodes."""

    def __init__(self, edges: Mapping[str, Sequence[str]]) -> None:
        self._bit = {node: 1 << place for place, node in enumerate(edges)}
        self._before: dict[str, int] = {}
        for root in edges:
            path = [root]
            while path:
                node = path[-1]
                missing = [upstream for upstream in edges[node] if upstream not in self._before]
                if missing and node not in self._before:
                    path.extend(missing)
                    continue
                path.pop()
                bits = 0
                for upstream in edges[node]:
                    bits |= self._before[upstream] | self._bit[upstream]
                self._before[node] = bits

    def __contains__(self, node: str) -> bool:
        return node in self._bit

    def precedes(self, upstream: str, node: str) -> bool:
        return bool(self._before[node] & self._bit[upstream])
