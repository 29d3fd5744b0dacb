"""Which events wake somebody, how often, and in which shape."""

import json
from typing import Any

import msgspec
import pytest

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.system_load import SystemLoad
from waterclock.projector.alerts.alert import MOST_OF_A_RULE, Alert, AlertState, add_to_outbox, is_silenced
from waterclock.projector.alerts.rules import AlertRules, Thresholds
from waterclock.projector.alerts.signing import KEY_ID, SIGNATURE, TIMESTAMP, signed, verify
from waterclock.projector.alerts.webhook import Format, body_of
from waterclock.proto.events import (
    RunEvent,
    RunFailed,
    RunLost,
    RunQueued,
    RunsMissed,
    RunStarted,
    RunSucceeded,
    RunTimedOut,
)

NOON = 1_790_000_040_000_000
RUN = "nightly@20260921T125400Z"


def at(seconds: float) -> int:
    return NOON + round(seconds * SECOND)


def queued(run_id: str = RUN, after: float = 0, **fields: Any) -> RunQueued:
    return RunQueued(run_id=run_id, at=at(after), version=1, scheduled=NOON, due=NOON, **fields)


def ended(kind: type, after: float = 1, run_id: str = RUN, **fields: Any) -> Any:
    return kind(run_id=run_id, at=at(after), attempt=1, executor_id="e", started=at(after), **fields)


def judged(*events: RunEvent, rules: AlertRules | None = None) -> list[tuple[str, str]]:
    rules = rules or AlertRules(AlertState(), Thresholds())
    found = [alert for number, event in enumerate(events, 1) for alert in rules.on_event(number, event)]
    return [(alert.rule, alert.summary) for alert in found]


RULES: list[tuple[list[RunEvent], list[tuple[str, str]]]] = [
    ([queued(), ended(RunSucceeded)], []),
    ([queued(), ended(RunFailed, reason="exit 1", retry_at=at(5))], []),
    ([queued(), ended(RunFailed, reason="exit 1")], [("dead_letter", f"{RUN} failed: exit 1")]),
    (
        [queued(), ended(RunTimedOut, reason="timed out", error_message="after 5 s")],
        [("dead_letter", f"{RUN} failed: timed out: after 5 s")],
    ),
    ([queued(), RunLost(run_id=RUN, at=NOON, attempt=1, crash_count=1)], []),
    (
        [queued(), RunLost(run_id=RUN, at=NOON, attempt=1, crash_count=3, dead=True)],
        [("dead_letter", f"{RUN} failed: its executors died too often")],
    ),
    (
        [RunsMissed(run_id=RUN, at=NOON, version=1, scheduled=NOON, until=NOON, count=7, reason="down")],
        [("missed", "7 runs of nightly missed from 2026-09-21T14:14:00Z: down")],
    ),
    (
        [queued(), RunStarted(run_id=RUN, at=at(90), attempt=1, executor_id="e")],
        [("lag", f"{RUN} started 90 s late")],
    ),
    ([queued(), ended(RunSucceeded, 59)], []),
    ([queued(), ended(RunSucceeded, 61)], [("lag", f"{RUN} started 61 s late")]),
    (
        [ended(RunFailed, reason="x"), ended(RunSucceeded, 9), ended(RunSucceeded, 10)],
        [
            ("dead_letter", f"{RUN} failed: x"),
            ("recovered", "nightly succeeds again; it had failed since 2026-09-21T14:14:01Z"),
        ],
    ),
]


@pytest.mark.parametrize(("events", "expected"), RULES)
def test_rules(events: list[RunEvent], expected: list[tuple[str, str]]) -> None:
    assert judged(*events) == expected


def test_the_same_is_told_once_an_hour_and_again_after_a_recovery() -> None:
    rules = AlertRules(AlertState(), Thresholds())
    failures = [ended(RunFailed, after, reason="x") for after in (1, 60, 3599, 3602)]
    assert [rule for rule, _ in judged(*failures, rules=rules)] == ["dead_letter", "dead_letter"]
    again = judged(ended(RunSucceeded, 3700), ended(RunFailed, 3701, reason="x"), rules=rules)
    assert [rule for rule, _ in again] == ["recovered", "dead_letter"]


def test_what_was_told_survives_a_restart() -> None:
    first = AlertRules(AlertState(), Thresholds())
    judged(ended(RunFailed, reason="x"), rules=first)
    second = AlertRules(first.state, Thresholds())
    assert judged(ended(RunFailed, 2, reason="x"), rules=second) == []
    assert [rule for rule, _ in judged(ended(RunSucceeded, 3), rules=second)] == ["recovered"]


def test_a_route_that_nobody_serves() -> None:
    rules = AlertRules(AlertState(), Thresholds())
    judged(queued(handler="email"), queued("other@1"), rules=rules)
    everything = {("default", "light"), ("default=email", "light")}
    assert rules.on_tick(at(59), set()) == []
    assert rules.on_tick(at(61), everything) == []
    [alert] = rules.on_tick(at(61), {("default", "light")})
    assert alert.rule == "no_executor"
    assert (
        alert.summary
        == "1 runs wait for handler email on queue default, tier light, and no executor serves it"
    )
    assert rules.on_tick(at(62), {("default", "light")}) == []


def test_a_failure_rate_needs_enough_runs_and_passes_with_time() -> None:
    rules = AlertRules(AlertState(), Thresholds())

    def fail(count: int, first: int) -> None:
        for number in range(first, first + count):
            rules.on_event(number, ended(RunFailed, 1, run_id=f"job{number}@1", reason="x"))

    fail(19, 0)
    assert rules.on_tick(at(2), set()) == []
    fail(1, 19)
    [alert] = rules.on_tick(at(3), set())
    assert (alert.rule, alert.summary) == ("failure_rate", "20 of the last 20 runs failed (100%)")
    assert rules.on_tick(at(5000), set()) == []


def test_a_flood_of_one_rule_becomes_one_alert_that_counts_it() -> None:
    outbox: list[Alert] = []
    for number in range(1000):
        add_to_outbox(outbox, alert(alert_id=str(number)))
    add_to_outbox(outbox, alert(rule="missed"))
    assert len(outbox) == MOST_OF_A_RULE + 1
    assert outbox[MOST_OF_A_RULE - 1].more == 1000 - MOST_OF_A_RULE


def test_silenced_by_label() -> None:
    assert is_silenced({"env": "dev"}, [("env", "dev")])
    assert not is_silenced({"env": "prod"}, [("env", "dev"), ("team", "dev")])


def alert(**fields: Any) -> Alert:
    given = {
        "alert_id": "a1",
        "key": "dead_letter:nightly",
        "rule": "dead_letter",
        "summary": "x <b> failed",
        "at": NOON,
        "job_id": "nightly",
        "run_id": RUN,
        "labels": {"team": "data"},
        **fields,
    }
    return Alert(**given)


def shaped(alert: Alert, format: Format) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body_of(alert, format, source="s", routing_key="k"))
    return found


def test_the_generic_shape() -> None:
    assert shaped(alert(more=3), "generic") == {
        "alert_id": "a1",
        "key": "dead_letter:nightly",
        "rule": "dead_letter",
        "severity": "error",
        "status": "firing",
        "summary": "x <b> failed (and 3 more like it)",
        "time": "2026-09-21T14:14:00Z",
        "job_id": "nightly",
        "run_id": RUN,
        "labels": {"team": "data"},
        "more": 3,
        "source": "s",
    }
    assert shaped(alert(rule="recovered"), "generic")["status"] == "resolved"


def test_the_slack_shape_escapes_what_slack_would_read() -> None:
    shape = shaped(alert(), "slack")
    assert "x &lt;b&gt; failed" in shape["text"]
    assert [block["type"] for block in shape["blocks"]] == ["section", "context"]
    assert "team=data" in shape["blocks"][1]["elements"][0]["text"]


def test_pagerduty_resolves_what_it_triggered() -> None:
    fired, resolved = (
        shaped(alert(rule="critical_failure"), "pagerduty"),
        shaped(alert(rule="recovered"), "pagerduty"),
    )
    assert (fired["event_action"], resolved["event_action"]) == ("trigger", "resolve")
    assert fired["dedup_key"] == resolved["dedup_key"]
    assert fired["routing_key"] == "k"
    assert fired["payload"]["severity"] == "critical"
    assert {"summary", "source", "severity"} <= fired["payload"].keys()
    assert shaped(alert(rule="missed", key="missed:nightly"), "pagerduty")["dedup_key"] != fired["dedup_key"]


def test_a_verifier_rejects_tampering_replay_and_wrong_keys() -> None:
    headers = signed(b"body", secret="s" * 16, key_id="k2", now=1000)

    def check(body: bytes = b"body", now: int = 1001, **changed: str) -> bool:
        given = {
            "key_id": headers[KEY_ID],
            "timestamp": headers[TIMESTAMP],
            "signature": headers[SIGNATURE],
            **changed,
        }
        return verify(body, secrets={"k1": "o" * 16, "k2": "s" * 16}, now=now, **given)

    assert check()
    assert not check(body=b"b0dy")
    assert not check(now=1301)
    assert not check(timestamp="1100")
    assert not check(key_id="k1")
    assert not check(key_id="k3")
    assert not check(timestamp="-1")
    assert not check(signature="v1=")


def load(since: float | None) -> SystemLoad:
    return SystemLoad(
        to_drain=84_000,
        ended_per_second=6_000,
        behind_seconds=9,
        saturated_since=None if since is None else at(since),
    )


def looks(rules: AlertRules, *seen: tuple[float, float | None]) -> list[Alert]:
    """What is told when at each time the schedulers say since when they are saturated."""
    return [alert for when, since in seen for alert in rules.on_load(at(when), load(since))]


def test_saturation_is_told_when_it_has_lasted_and_once() -> None:
    rules = AlertRules(AlertState(), Thresholds())
    assert looks(rules, (0, None), (5, 1), (25, 1)) == []
    (told,) = looks(rules, (32, 1), (37, 1), (60, 1))
    assert (told.rule, told.severity, told.resolves) == ("saturated", "warning", False)
    assert told.summary == (
        "saturated since 2026-09-21T14:14:01Z: 9 s behind, 14 s of work at 6,000 runs a second;"
        " callers are slowed down"
    )
    (again,) = looks(rules, (3700, 1))
    assert again.alert_id != told.alert_id


def test_a_small_backlog_that_takes_long_is_told_without_saying_that_callers_are_slowed_down() -> None:
    rules = AlertRules(AlertState(), Thresholds())
    (told,) = rules.on_load(at(31), SystemLoad(to_drain=600, ended_per_second=1, saturated_since=at(0)))
    assert told.summary.endswith("600 s of work at 1 runs a second")


def test_saturation_that_comes_and_goes_is_one_and_is_over_when_it_has_stayed_away() -> None:
    rules = AlertRules(AlertState(), Thresholds())
    (told,) = looks(rules, (5, 1), (10, None), (15, 12), (25, None), (33, 30), (38, 30))
    assert "since 2026-09-21T14:14:01Z" in told.summary
    assert looks(rules, (43, None), (60, None)) == []
    (over,) = looks(rules, (70, None), (75, None), (300, None))
    assert (over.key, over.resolves, over.severity) == (told.key, True, "info")
    assert "from 2026-09-21T14:14:01Z to 2026-09-21T14:14:38Z" in over.summary
    assert rules.state.saturated_since is None
    (anew,) = looks(rules, (400, 395), (430, 395))
    assert "2026-09-21T14:20:35Z" in anew.summary


def test_saturation_is_over_also_after_a_restart_and_nothing_is_made_of_silence() -> None:
    state = AlertState()
    assert len(looks(AlertRules(state, Thresholds()), (0, 0), (31, 0))) == 1
    stored = msgspec.json.decode(msgspec.json.encode(state), type=AlertState)
    rules = AlertRules(stored, Thresholds())
    assert rules.on_load(at(100), None) == []
    assert looks(rules, (105, 0)) == []
    (over,) = looks(rules, (110, None), (140, None))
    assert over.resolves


def test_a_pager_is_told_that_the_same_incident_is_over() -> None:
    rules = AlertRules(AlertState(), Thresholds())
    told, over = looks(rules, (0, 0), (31, 0), (40, None), (65, None))
    first, last = (
        json.loads(body_of(alert, "pagerduty", source="s", routing_key="r")) for alert in (told, over)
    )
    assert (first["event_action"], last["event_action"]) == ("trigger", "resolve")
    assert first["dedup_key"] == last["dedup_key"] == "waterclock/saturated:all"
