"""What is told, and what is waiting to be told.

What is to be delivered, in order; bounded, whatever happens.
"""

from collections.abc import Collection
from typing import Literal

import msgspec
from msgspec import Struct, field

from waterclock.proto.events import Instant

Rule = Literal["critical_failure", "dead_letter", "missed", "lag", "no_executor", "failure_rate", "recovered"]
Severity = Literal["critical", "error", "warning", "info"]

SEVERITIES: dict[Rule, Severity] = {
    "critical_failure": "critical",
    "dead_letter": "error",
    "missed": "error",
    "lag": "warning",
    "no_executor": "error",
    "failure_rate": "error",
    "recovered": "info",
}

MOST_OF_A_RULE = 20
"""Alerts of one rule that wait at the same time; more become part of one that counts them."""


class Alert(Struct, frozen=True, kw_only=True, omit_defaults=True):
    alert_id: str
    """The same in every try at delivering it, and after a restart."""
    key: str
    """What it is about: `<rule>:<job or route>`. A second alert with the same key is held back for a while."""
    rule: Rule
    summary: str
    at: Instant
    job_id: str | None = None
    run_id: str | None = None
    labels: dict[str, str] = {}
    more: int = 0
    """How many others of the rule it stands for."""
    tries: int = 0
    next_try: Instant = 0

    @property
    def severity(self) -> Severity:
        return SEVERITIES[self.rule]

    @property
    def resolves(self) -> bool:
        return self.rule == "recovered"


class State(Struct, kw_only=True, omit_defaults=True):
    """All that must outlive a restart. One value, so that what was read and what follows from it cannot part."""

    position: int = 0
    """`RUNS` is read up to here."""
    failing: dict[str, Instant] = field(default_factory=dict)
    """Jobs whose last run failed, and since when."""
    told: dict[str, Instant] = field(default_factory=dict)
    """When each key was last told."""
    outbox: list[Alert] = field(default_factory=list)


def post(outbox: list[Alert], alert: Alert) -> None:
    """Add one. A flood of one rule becomes one alert that counts it."""
    if not is_flood(outbox, alert):
        outbox.append(alert)
        return
    last = max(number for number, waiting in enumerate(outbox) if _alike(waiting, alert))
    outbox[last] = msgspec.structs.replace(outbox[last], more=outbox[last].more + 1)


def is_flood(outbox: list[Alert], alert: Alert) -> bool:
    return sum(_alike(waiting, alert) for waiting in outbox) >= MOST_OF_A_RULE


def silenced(labels: dict[str, str], silences: Collection[tuple[str, str]]) -> bool:
    """Whether a job has one of the labels nobody wants to hear of."""
    return any(labels.get(name) == value for name, value in silences)


def _alike(one: Alert, other: Alert) -> bool:
    failures = ("dead_letter", "critical_failure")
    return one.rule == other.rule or (one.rule in failures and other.rule in failures)
