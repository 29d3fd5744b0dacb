"""An alert, and the alerts that wait to be delivered: in order, and bounded whatever happens."""

from collections.abc import Collection
from typing import Literal

import msgspec
from msgspec import Struct, field

from waterclock.proto.events import Instant

Rule = Literal[
    "critical_failure",
    "dead_letter",
    "missed",
    "lag",
    "no_executor",
    "failure_rate",
    "saturated",
    "quarantine",
    "partition_failing",
    "recovered",
]
Severity = Literal["critical", "error", "warning", "info"]

SEVERITIES: dict[Rule, Severity] = {
    "critical_failure": "critical",
    "dead_letter": "error",
    "missed": "error",
    "lag": "warning",
    "no_executor": "error",
    "failure_rate": "error",
    "saturated": "warning",
    "quarantine": "error",
    "partition_failing": "critical",
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
    resolved: bool = False
    """What an alert with the same key told of is over."""
    more: int = 0
    """How many others of the rule it stands for."""
    tries: int = 0
    next_try: Instant = 0

    @property
    def severity(self) -> Severity:
        return "info" if self.resolved else SEVERITIES[self.rule]

    @property
    def resolves(self) -> bool:
        return self.resolved or self.rule == "recovered"


class AlertState(Struct, kw_only=True, omit_defaults=True):
    """All that must outlive a restart. It is stored as one value, so that position and outbox always agree."""

    position: int = 0
    """`RUNS` is read up to here."""
    failing: dict[str, Instant] = field(default_factory=dict)
    """Jobs whose last run failed, and since when."""
    last_alert: dict[str, Instant] = field(default_factory=dict, name="told")
    """When there was last an alert with each key."""
    outbox: list[Alert] = field(default_factory=list)
    saturated_since: Instant | None = None
    """Set once there was an alert of it, until it is over."""
    quarantine_seen: int = 0
    """`QUARANTINE` is read up to here."""


def add_to_outbox(outbox: list[Alert], alert: Alert) -> None:
    """Add one. A flood of one rule becomes one alert that counts it."""
    if not is_flood(outbox, alert):
        outbox.append(alert)
        return
    last = max(number for number, waiting in enumerate(outbox) if _same_kind(waiting, alert))
    outbox[last] = msgspec.structs.replace(outbox[last], more=outbox[last].more + 1)


def is_flood(outbox: list[Alert], alert: Alert) -> bool:
    return sum(_same_kind(waiting, alert) for waiting in outbox) >= MOST_OF_A_RULE


def is_silenced(labels: dict[str, str], silences: Collection[tuple[str, str]]) -> bool:
    """Whether a job has one of the labels that no alerts are wanted for."""
    return any(labels.get(name) == value for name, value in silences)


def _same_kind(one: Alert, other: Alert) -> bool:
    failures = ("dead_letter", "critical_failure")
    return one.rule == other.rule or (one.rule in failures and other.rule in failures)
