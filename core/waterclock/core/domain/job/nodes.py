"""A workflow's nodes, read from a request: each by itself, what it is expanded over, and the graph they make."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UnsetType

from waterclock.core.domain.job.naming import check_line
from waterclock.core.domain.job.request_fields import (
    concurrency_limit_of,
    max_retries_of,
    plain_fields,
    rate_of,
    timeout_of,
    value_of,
    value_or,
)
from waterclock.core.domain.job.task import task_of
from waterclock.core.domain.job.validate import Defaults, Problems
from waterclock.core.domain.workflow.references import check_references
from waterclock.proto.names import is_user_id
from waterclock.proto.policies import DIGEST_PATTERN, AnyRule, TriggerRule
from waterclock.proto.spec import (
    ALONGSIDE,
    RUNS,
    FanOut,
    FanOutRequest,
    JobRequest,
    Node,
    NodeRequest,
    Workflow,
)

_DIGEST = re.compile(DIGEST_PATTERN)

LARGEST = 100_000_000

_SHARE = re.compile(r"(?P<percent>\d{1,3}(\.\d{1,6})?)\s*%", re.ASCII)
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


def workflow_of(request: JobRequest, defaults: Defaults, problems: Problems) -> Workflow:
    for field in (*RUNS, *ALONGSIDE, "fan_out"):
        if value_of(getattr(request, field)) is not None:
            problems.add(field, "cannot be combined with nodes: say it of a node")
    nodes = tuple(
        _node(node, defaults, problems.under(f"nodes[{place}]"))
        for place, node in enumerate(value_or(request.nodes, []))
    )
    check_nodes(nodes, problems)
    if not problems:
        check_references(nodes, problems)
    return Workflow(nodes=nodes)


def _rule(rule: TriggerRule | AnyRule) -> TriggerRule:
    match rule:
        case "any_success":
            return "one_success"
        case "any_failed":
            return "one_failed"
        case "any_done":
            return "one_done"
        case _:
            return rule


def _node(request: NodeRequest, defaults: Defaults, problems: Problems) -> Node:
    for field, text in (("id", request.id), ("queue", value_or(request.queue, "default"))):
        if not is_user_id(text):
            problems.add(
                field, "must be letters, digits, _ or -, beginning with a letter or digit, and at most 64"
            )
    for field in ("concurrency_key", "rate_key"):
        check_line(field, value_of(getattr(request, field)), problems)
    upstream = tuple(dict.fromkeys(value_or(request.depends_on, [])))
    expansion = value_of(request.map)
    return Node(
        id=request.id,
        task=task_of(request, request.id, problems),
        depends_on=upstream,
        trigger_rule=_rule(value_or(request.trigger_rule, "all_success")),
        condition=value_of(request.condition),
        map=None if expansion is None else fan_out_of(expansion, upstream, problems.under("map")),
        max_retries=max_retries_of(request, defaults, problems),
        timeout_seconds=timeout_of(request, defaults, problems),
        concurrency_limit=concurrency_limit_of(request, problems),
        rate_per_second=rate_of(request, problems),
        **plain_fields(request),
    )


def fan_out_of(request: FanOutRequest, upstream: tuple[str, ...] | None, problems: Problems) -> FanOut:
    """`upstream`: the nodes whose output may be expanded; None for a job, which has none."""
    _check_over(request.over, upstream, problems)
    tolerated = 0 if isinstance(request.tolerated_failures, UnsetType) else request.tolerated_failures
    if isinstance(tolerated, str):
        share = _SHARE.fullmatch(tolerated.strip())
        if share is None or float(share["percent"]) > 100:
            problems.add("tolerated_failures", f"{tolerated!r} is neither a count nor a share such as 5%")
    return FanOut(
        over=request.over,
        max_concurrency=value_or(request.max_concurrency, 100),
        tolerated_failures=tolerated,
    )


def _check_over(over: Any, upstream: tuple[str, ...] | None, problems: Problems) -> None:
    match over:
        case list():
            return
        case {"range": bool()}:
            problems.add("over.range", "must be a number of members")
        case {"range": int() as size, **rest} if not rest:
            if not 0 <= size <= LARGEST:
                problems.add("over.range", f"must be between 0 and {LARGEST}")
        case {"lines": str() as digest, **rest} if not rest:
            if not _DIGEST.fullmatch(digest):
                problems.add("over.lines", "must be sha256: followed by 64 hexadecimal digits")
        case {"from": str() as node, **rest} if not rest and upstream is not None:
            if not is_user_id(node) or node not in upstream:
                problems.add("over.from", f"{node!r} is not among the nodes it depends on")
        case {"from": _, **rest} if not rest and upstream is None:
            problems.add("over.from", "only a workflow's node can expand the output of another")
        case _:
            choices = '[items], {"range": N}, {"lines": "sha256:…"}'
            more = ' or {"from": "node id"}' if upstream is not None else ""
            problems.add("over", f"must be one of {choices}{more}")


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
