"""A workflow's graph, prepared once per version, and how far one wave has come through it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from waterclock.core.domain.workflow.references import nodes_read_by
from waterclock.core.domain.workflow.trigger_rules import Outcome, Upstream, Verdict, decide_node
from waterclock.proto.spec import Node, Workflow


class Shape(Struct, frozen=True):
    nodes: dict[str, Node]
    after: dict[str, tuple[str, ...]]
    """The nodes that wait for a node."""
    read: frozenset[str]
    """Nodes whose output another one refers to."""
    reads: dict[str, frozenset[str]]

    @property
    def leaves(self) -> Iterable[str]:
        return (node for node in self.nodes if not self.after[node])

    def descendants(self, nodes: Iterable[str]) -> set[str]:
        """These nodes and all that come after them."""
        found: set[str] = set()
        ahead = list(nodes)
        while ahead:
            node = ahead.pop()
            if node not in found:
                found.add(node)
                ahead.extend(self.after[node])
        return found


def shape_of(workflow: Workflow) -> Shape:
    nodes = {node.id: node for node in workflow.nodes}
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for node in workflow.nodes:
        for upstream in node.depends_on:
            after[upstream].append(node.id)
    reads = {node.id: nodes_read_by(node) for node in workflow.nodes}
    return Shape(
        nodes,
        {node: tuple(others) for node, others in after.items()},
        frozenset().union(*reads.values()),
        reads,
    )


class Frontier:
    """Which nodes of a wave are to be looked at. The cost of an end is the number of nodes that wait for it."""

    def __init__(self, shape: Shape, ended: Mapping[str, Outcome]) -> None:
        self.shape = shape
        self._upstream = {node.id: Upstream(total=len(node.depends_on)) for node in shape.nodes.values()}
        self._open = dict.fromkeys(node for node in shape.nodes if node not in ended)
        for node, outcome in ended.items():
            self._count(node, outcome)

    def ended(self, node: str, outcome: Outcome) -> None:
        self._count(node, outcome)
        self._open.update(dict.fromkeys(self.shape.after.get(node, ())))

    def take(self) -> str | None:
        """A node whose turn may have come."""
        if not self._open:
            return None
        node = next(iter(self._open))
        del self._open[node]
        return node

    def verdict(self, node: str) -> Verdict | None:
        return decide_node(self.shape.nodes[node].trigger_rule, self._upstream[node])

    def _count(self, node: str, outcome: Outcome) -> None:
        for waiting in self.shape.after.get(node, ()):
            self._upstream[waiting].count(outcome)
