"""Runs that are made of others: waves of nodes, and fan-outs of members. Their part of the fold.

A wave knows how its nodes ended; those that go on are runs of their own. A fan-out knows numbers, not members: what
is kept of it does not grow with its size.
"""

from typing import Any

import msgspec
from msgspec import Struct, field

from waterclock.core.domain.workflow.trigger_rules import Outcome
from waterclock.proto.events import RerunRequested
from waterclock.proto.names import member_index
from waterclock.proto.verdicts import RunStatus

OUTPUT_LIMIT = 64 * 1024
"""Bytes of an output, and of the results of a fan-out together."""

_encode = msgspec.json.Encoder().encode


class NodeEnd(Struct, frozen=True, omit_defaults=True):
    outcome: Outcome
    output: Any = None
    status: str = ""
    """As a run's, where the outcome does not tell."""


class Wave(Struct, kw_only=True, omit_defaults=True):
    nodes: dict[str, NodeEnd] = field(default_factory=dict)
    """Those that have ended."""
    attempts: dict[str, int] = field(default_factory=dict)
    """The last attempt of nodes that are run again."""
    to_clear: bool = False
    """That they are to be run again has not been said of each of them yet."""


class Expansion(Struct, kw_only=True, omit_defaults=True):
    total: int | None = None
    next: int = 0
    """The first member that has not begun."""
    active: int = 0
    done: int = 0
    failed: int = 0
    results: dict[int, Any] | None = field(default_factory=dict)
    """What members gave, as long as it is little."""
    results_size: int = 0


def node_of(run_id: str) -> str:
    return run_id.rpartition("~")[2]


def node_ended(wave: Wave, run_id: str, status: RunStatus, output: Any) -> None:
    match status:
        case "SUCCESS":
            wave.nodes[node_of(run_id)] = NodeEnd("success", output)
        case "SKIPPED":
            wave.nodes[node_of(run_id)] = NodeEnd("skipped")
        case _:
            wave.nodes[node_of(run_id)] = NodeEnd("failed", status="" if status == "FAILED" else status)


def node_skipped(wave: Wave, run_id: str, blocked: bool) -> None:
    wave.nodes.setdefault(node_of(run_id), NodeEnd("blocked" if blocked else "skipped"))


def node_marked(wave: Wave, run_id: str, succeeded: bool, output: Any) -> None:
    wave.nodes.setdefault(node_of(run_id), NodeEnd("success", output) if succeeded else NodeEnd("skipped"))


def revived(event: RerunRequested) -> Wave:
    return Wave(
        nodes={node: NodeEnd(stands.outcome, stands.output) for node, stands in event.nodes.items()},
        attempts=dict(event.cleared),
        to_clear=True,
    )


def member_begun(expansion: Expansion, run_id: str) -> None:
    expansion.next = max(expansion.next, member_index(run_id) + 1)
    expansion.active += 1


def member_ended(expansion: Expansion, run_id: str, status: RunStatus, output: Any) -> None:
    expansion.active -= 1
    if status != "SUCCESS":
        expansion.failed += 1
        return
    expansion.done += 1
    if expansion.results is not None and output is not None:
        expansion.results_size += len(_encode(output)) + 1
        if expansion.results_size <= OUTPUT_LIMIT:
            expansion.results[member_index(run_id)] = output
        else:
            expansion.results = None
