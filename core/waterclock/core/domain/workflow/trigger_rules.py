"""When a node runs, given how the nodes before it ended. The meaning is Airflow's; the table is the only place.

`blocked` is what Airflow calls upstream_failed: the node did not run because one before it failed. A node is decided as
soon as what is still open cannot change the answer.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from waterclock.proto.policies import TriggerRule

Outcome = Literal["success", "failed", "skipped", "blocked"]
Verdict = Literal["run", "skip", "block"]
"""Run it; skip it; or do not run it and hand the failure on."""


class Upstream(Struct, kw_only=True, gc=False):
    """How many of a node's dependencies ended in which way so far."""

    total: int
    success: int = 0
    failed: int = 0
    skipped: int = 0
    blocked: int = 0

    def count(self, outcome: Outcome) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)

    @property
    def bad(self) -> int:
        return self.failed + self.blocked

    @property
    def done(self) -> bool:
        return self.success + self.failed + self.skipped + self.blocked == self.total


Rule = Callable[[Upstream], Verdict | None]


def _all_success(up: Upstream) -> Verdict | None:
    if up.bad:
        return "block"
    if up.skipped:
        return "skip"
    return "run" if up.done else None


def _all_failed(up: Upstream) -> Verdict | None:
    if up.success or up.skipped:
        return "skip"
    return "run" if up.done else None


def _all_done(up: Upstream) -> Verdict | None:
    return "run" if up.done else None


def _one_success(up: Upstream) -> Verdict | None:
    if up.success:
        return "run"
    if not up.done:
        return None
    return "skip" if up.skipped == up.total else "block"


def _one_failed(up: Upstream) -> Verdict | None:
    if up.bad:
        return "run"
    return "skip" if up.done else None


def _one_done(up: Upstream) -> Verdict | None:
    if up.success or up.failed:
        return "run"
    return "skip" if up.done else None


def _none_failed(up: Upstream) -> Verdict | None:
    if up.bad:
        return "block"
    return "run" if up.done else None


def _none_failed_min_one_success(up: Upstream) -> Verdict | None:
    if up.bad:
        return "block"
    if not up.done:
        return None
    return "run" if up.success else "skip"


def _none_skipped(up: Upstream) -> Verdict | None:
    if up.skipped:
        return "skip"
    return "run" if up.done else None


def _all_skipped(up: Upstream) -> Verdict | None:
    if up.success or up.bad:
        return "skip"
    return "run" if up.done else None


def _all_done_min_one_success(up: Upstream) -> Verdict | None:
    if not up.done:
        return None
    if up.success:
        return "run"
    return "skip" if up.skipped == up.total else "block"


def _always(up: Upstream) -> Verdict | None:
    return "run"


RULES: dict[TriggerRule, Rule] = {
    "all_success": _all_success,
    "all_failed": _all_failed,
    "all_done": _all_done,
    "one_success": _one_success,
    "one_failed": _one_failed,
    "one_done": _one_done,
    "none_failed": _none_failed,
    "none_failed_min_one_success": _none_failed_min_one_success,
    "none_skipped": _none_skipped,
    "all_skipped": _all_skipped,
    "all_done_min_one_success": _all_done_min_one_success,
    "always": _always,
}


def decide_node(rule: TriggerRule, upstream: Upstream) -> Verdict | None:
    """None: it waits. A node without dependencies runs at once."""
    return "run" if upstream.total == 0 else RULES[rule](upstream)
