"""Runs that are made of others: runs of workflows, made of nodes, and fan-outs, made of members.

This is their part of the fold. A workflow run knows how its nodes ended; nodes that go on are runs of their own. A
fan-out keeps numbers, not members: its state does not grow with its size.
"""

from typing import Any

import msgspec
from msgspec import Struct, field

from waterclock.core.domain.ids import member_index, node_of
from waterclock.core.domain.workflow.trigger_rules import Outcome
from waterclock.proto.events import RerunRequested
from waterclock.proto.verdicts import RunStatus

OUTPUT_LIMIT = 64 * 1024
"""Bytes of an output, and of the results of a fan-out together."""

_encode = msgspec.json.Encoder().encode


class NodeEnd(Struct, frozen=True, omit_defaults=True):
    outcome: Outcome
    output: Any = None
    status: str = ""
    """The status of the node's run, where it does not follow from the outcome."""


class WorkflowRunState(Struct, kw_only=True, omit_defaults=True):
    nodes: dict[str, NodeEnd] = field(default_factory=dict)
    """Those that have ended."""
    attempts: dict[str, int] = field(default_factory=dict)
    """The last attempt of nodes that are run again."""
    to_clear: bool = False
    """It is to be run again, and the log does not yet have a NodeCleared for each node concerned."""


class FanOutState(Struct, kw_only=True, omit_defaults=True):
    total: int | None = None
    next: int = 0
    """The first member that has not begun."""
    active: int = 0
    done: int = 0
    failed: int = 0
    results: dict[int, Any] | None = field(default_factory=dict)
    """The outputs of members by their index; None once they have grown beyond the limit."""
    results_size: int = 0


def node_ended(workflow_run: WorkflowRunState, run_id: str, status: RunStatus, output: Any) -> None:
    if status == "SUCCESS":
        end = NodeEnd("success", output)
    elif status == "SKIPPED":
        end = NodeEnd("skipped")
    else:
        end = NodeEnd("failed", status="" if status == "FAILED" else status)
    workflow_run.nodes[node_of(run_id)] = end


def node_skipped(workflow_run: WorkflowRunState, run_id: str, blocked: bool) -> None:
    workflow_run.nodes.setdefault(node_of(run_id), NodeEnd("blocked" if blocked else "skipped"))


def node_marked(workflow_run: WorkflowRunState, run_id: str, succeeded: bool, output: Any) -> None:
    end = NodeEnd("success", output) if succeeded else NodeEnd("skipped")
    workflow_run.nodes.setdefault(node_of(run_id), end)


def workflow_run_again(event: RerunRequested) -> WorkflowRunState:
    return WorkflowRunState(
        nodes={node: NodeEnd(stands.outcome, stands.output) for node, stands in event.nodes.items()},
        attempts=dict(event.cleared),
        to_clear=True,
    )


def member_begun(fan_out: FanOutState, run_id: str) -> None:
    fan_out.next = max(fan_out.next, member_index(run_id) + 1)
    fan_out.active += 1


def member_ended(fan_out: FanOutState, run_id: str, status: RunStatus, output: Any) -> None:
    fan_out.active -= 1
    if status != "SUCCESS":
        fan_out.failed += 1
        return
    fan_out.done += 1
    if fan_out.results is not None and output is not None:
        fan_out.results_size += len(_encode(output)) + 1
        if fan_out.results_size <= OUTPUT_LIMIT:
            fan_out.results[member_index(run_id)] = output
        else:
            fan_out.results = None
