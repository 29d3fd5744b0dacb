"""What is to be delivered, in order; bounded, whatever happens."""

from collections.abc import Collection

import msgspec

from waterclock.projector.alerts.alert import MOST_OF_A_RULE, Alert


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
