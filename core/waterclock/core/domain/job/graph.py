"""Graphs of what waits for what: cycles between jobs, and the shape of a workflow."""

from collections.abc import Iterable, Mapping, Sequence

from waterclock.core.domain.job.validate import Problems
from waterclock.proto.policies import TriggerRule
from waterclock.proto.spec import Node

_NEEDS_UPSTREAM: frozenset[TriggerRule] = frozenset(
    (
        "all_failed",
        "one_success",
        "one_failed",
        "one_done",
        "none_failed_min_one_success",
        "all_skipped",
        "all_done_min_one_success",
    )
)
"""Rules that wait for an outcome of a dependency and so never hold without one."""
_ALWAYS_HOLDS: frozenset[TriggerRule] = frozenset(("all_done", "one_done", "always"))


def find_cycle(edges: Mapping[str, Iterable[str]]) -> list[str] | None:
    """A cycle among nodes and what each depends on, as a path that ends where it began; None if there is none."""
    done: set[str] = set()
    for root in edges:
        path: dict[str, None] = {}
        open_edges = [iter((root,))]
        while open_edges:
            node = next(open_edges[-1], None)
            if node is None:
                open_edges.pop()
                if path:
                    done.add(path.popitem()[0])
            elif node in path:
                nodes = list(path)
                return [*nodes[nodes.index(node) :], node]
            elif node not in done:
                path[node] = None
                open_edges.append(iter(edges.get(node, ())))
    return None


def spell(cycle: Sequence[str]) -> str:
    return " -> ".join(cycle)


def check_nodes(nodes: Sequence[Node], problems: Problems) -> None:
    """A workflow's nodes are distinct, depend on nodes that exist and not on themselves, and can run at all."""
    places: dict[str, int] = {}
    for place, node in enumerate(nodes):
        if node.id in places:
            problems.add(f"nodes[{place}].id", f"there is another node '{node.id}'")
        places.setdefault(node.id, place)
    for place, node in enumerate(nodes):
        for missing in (upstream for upstream in node.depends_on if upstream not in places):
            problems.add(f"nodes[{place}].depends_on", f"there is no node '{missing}'")
    if problems:
        return
    if cycle := find_cycle({node.id: node.depends_on for node in nodes}):
        problems.add("nodes", f"the nodes wait for each other: {spell(cycle)}")
        return
    by_id = {node.id: node for node in nodes}
    for place, node in enumerate(nodes):
        if reason := _never_runs(node, by_id):
            problems.add(f"nodes[{place}].trigger_rule", f"'{node.id}' can never run: {reason}")


def _never_runs(node: Node, by_id: Mapping[str, Node]) -> str | None:
    if not node.depends_on:
        return (
            f"{node.trigger_rule} waits for a dependency, and it has none"
            if node.trigger_rule in _NEEDS_UPSTREAM
            else None
        )
    if node.trigger_rule == "all_skipped":
        for upstream in node.depends_on:
            if not _may_be_skipped(by_id[upstream]):
                return f"all_skipped waits for '{upstream}' to be skipped, and that always runs"
    return None


def _may_be_skipped(node: Node) -> bool:
    if node.condition is not None or node.map is not None:
        return True
    return bool(node.depends_on) and node.trigger_rule not in _ALWAYS_HOLDS
