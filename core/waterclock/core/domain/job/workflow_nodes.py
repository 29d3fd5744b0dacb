"""The nodes of a workflow."""

from waterclock.core.domain.job.graph import check_nodes
from waterclock.core.domain.job.policies import max_retries_of, timeout_of
from waterclock.core.domain.job.request_fields import plain_fields, value_of, value_or
from waterclock.core.domain.job.task import fan_out_of, task_of
from waterclock.core.domain.job.validate import Problems
from waterclock.core.domain.workflow.references import check_references
from waterclock.proto.names import is_user_id
from waterclock.proto.policies import AnyRule, TriggerRule
from waterclock.proto.spec import ALONGSIDE, RUNS, JobRequest, Node, NodeRequest, Workflow


def workflow_of(request: JobRequest, problems: Problems) -> Workflow:
    for field in (*RUNS, *ALONGSIDE, "fan_out"):
        if value_of(getattr(request, field)) is not None:
            problems.add(field, "cannot be combined with nodes: say it of a node")
    nodes = tuple(
        _node(node, problems.under(f"nodes[{place}]"))
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


def _node(request: NodeRequest, problems: Problems) -> Node:
    for field, text in (("id", request.id), ("queue", value_or(request.queue, "default"))):
        if not is_user_id(text):
            problems.add(
                field, "must be letters, digits, _ or -, beginning with a letter or digit, and at most 64"
            )
    upstream = tuple(dict.fromkeys(value_or(request.depends_on, [])))
    expansion = value_of(request.map)
    return Node(
        id=request.id,
        task=task_of(request, request.id, problems),
        depends_on=upstream,
        trigger_rule=_rule(value_or(request.trigger_rule, "all_success")),
        condition=value_of(request.condition),
        map=None if expansion is None else fan_out_of(expansion, upstream, problems.under("map")),
        max_retries=max_retries_of(request, problems),
        timeout_seconds=timeout_of(request, problems),
        **plain_fields(request),
    )
