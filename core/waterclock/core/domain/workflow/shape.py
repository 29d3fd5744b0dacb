"""A workflow's graph, prepared once per version; how far one workflow run has come through it, and which nodes of a run
that ended are to run again.
"""

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


_WELL = ("SUCCESS", "SKIPPED")


def to_run_again(shape: Shape, statuses: Mapping[str, str], chosen: Iterable[str] = ()) -> set[str]:
    """The chosen nodes, or else those that ended badly or not at all; and all that come after them."""
    first = set(chosen) or {node for node in shape.nodes if statuses.get(node) not in _WELL}
    return shape.descendants(first)


def outcomes(shape: Shape, statuses: Mapping[str, str]) -> dict[str, Outcome]:
    """How nodes ended, for those after them. A skipped one may have been skipped for a failure before it: the rules
    tell."""
    found: dict[str, Outcome] = {}
    waiting = list(shape.nodes)
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        before = shape.nodes[node].depends_on
        if missing := [upstream for upstream in before if upstream not in found]:
            waiting += (node, *missing)
            continue
        upstream = Upstream(total=len(before))
        for other in before:
            upstream.count(found[other])
        found[node] = _outcome(shape, node, statuses.get(node, ""), upstream)
    return found


def _outcome(shape: Shape, node: str, status: str, upstream: Upstream) -> Outcome:
    if status == "SUCCESS":
        return "success"
    if status != "SKIPPED":
        return "failed"
    verdict = decide_node(shape.nodes[node].trigger_rule, upstream)
    return "blocked" if verdict == "block" else "skipped"
