"""Running part of a wave again: which nodes, and how the others stand."""

from collections.abc import Iterable, Mapping

from waterclock.core.domain.workflow.shape import Shape
from waterclock.core.domain.workflow.trigger_rules import Outcome, Upstream, decide_node

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
