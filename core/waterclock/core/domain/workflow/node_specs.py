"""The work of a node or of a member: a job's definition, made of the workflow's, the node's and what is known so far.

A pure function: a retry, or another owner after a crash, derives the same again.
"""

from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waterclock.core.domain.instants import rfc3339
from waterclock.core.domain.workflow.conditions import FilledScope, Scope, Unusable, failing_alone
from waterclock.core.domain.workflow.template import render, render_task
from waterclock.proto.events import Instant
from waterclock.proto.spec import Http, JobSpec, Node, Schedule, Workflow
from waterclock.proto.values import beyond_bounds


def scope_of(
    *,
    run_id: str,
    scheduled: Instant,
    epoch: int | None,
    parameters: Any,
    nodes: dict[str, dict[str, Any]],
    item: Any = UNSET,
    index: int | None = None,
) -> dict[str, Any]:
    """What templates and conditions can refer to."""
    scope = {
        "run_id": run_id,
        "scheduled_time": rfc3339(scheduled),
        "epoch": epoch,
        "parameters": parameters,
        "nodes": nodes,
    }
    if index is not None:
        scope.update(item=item, index=index)
    return scope


def parameters_of(spec: JobSpec, given: Any) -> Any:
    """A workflow's payload holds the defaults of its parameters."""
    if not isinstance(spec.payload, dict):
        return given if given is not None else {}
    return {**spec.payload, **(given or {})}


def node_spec(spec: JobSpec, node: Node) -> JobSpec:
    """A node as a job of its own, before its templates are filled in."""
    return JobSpec(
        name=f"{spec.name}.{node.id}",
        namespace=spec.namespace,
        task=node.task,
        schedule=Schedule(),
        payload=node.payload,
        labels=spec.labels,
        metadata=spec.metadata,
        priority=node.priority or spec.priority,
        tier=node.tier,
        queue=node.queue if node.queue != "default" else spec.queue,
        max_retries=node.max_retries,
        retry=node.retry,
        timeout_seconds=node.timeout_seconds,
        slots=node.slots,
        concurrency_key=node.concurrency_key,
        concurrency_limit=node.concurrency_limit,
        rate_key=node.rate_key,
        rate_per_second=node.rate_per_second,
        delivery=node.delivery or spec.delivery,
        critical=spec.critical,
        limits=node.limits or spec.limits,
        secrets=(*spec.secrets, *node.secrets),
        fan_out=node.map,
    )


@failing_alone
def filled(spec: JobSpec, scope: Scope, item: Any | UnsetType = UNSET) -> JobSpec:
    """With its templates filled in; a member whose definition has no payload gets its item. Raises Unusable."""
    assert not isinstance(spec.task, Workflow)
    scope = FilledScope(scope)
    payload = item if spec.payload is None and item is not UNSET else render(spec.payload, scope)
    task = render_task(spec.task, scope)
    if scope.gave_structure:
        body = task.body if isinstance(task, Http) else None
        if reason := beyond_bounds(payload) or beyond_bounds(body):
            raise Unusable(f"with its templates filled in it {reason}")
    return replace(spec, task=task, payload=payload, fan_out=None)
