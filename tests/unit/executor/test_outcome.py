"""What the end of an attempt means, as a table."""

from typing import Any

import pytest
from msgspec.structs import replace

from executor_rig.builders import NOON, attempt
from waterclock.core.domain.run.retry import CRASH_LIMIT
from waterclock.executor.attempt.outcome import classify, rejected
from waterclock.executor.attempt_record import (
    Cancelled,
    Details,
    Failed,
    Result,
    Returned,
    Snoozed,
    Succeeded,
    TimedOut,
)
from waterclock.executor.in_flight import StopCause, StopKind, result_of_stop
from waterclock.proto.events import (
    RunCancelled,
    RunEvent,
    RunFailed,
    RunReturned,
    RunSnoozed,
    RunSucceeded,
    RunTimedOut,
)
from waterclock.proto.policies import Retry

NOW = NOON + 1_000_000


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (Succeeded(), RunSucceeded),
        (Failed(reason="exit code 1"), RunFailed),
        (TimedOut(reason="timed out"), RunTimedOut),
        (Snoozed(seconds=5), RunSnoozed),
        (Returned(reason="draining"), RunReturned),
        (Cancelled(reason="asked"), RunCancelled),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_every_ending_has_its_event(end: Result, kind: type[RunEvent]) -> None:
    event = classify(attempt(token=7), end, NOW)
    assert type(event) is kind
    assert (event.run_id, event.at, event.attempt, event.executor_id) == (
        "job@20261116T030000Z",
        NOW,
        1,
        "executor-1",
    )
    assert event.started == NOON + 5
    assert event.fencing_token == 7


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("cancelled", RunCancelled),
        ("timed_out", RunTimedOut),
        ("returned", RunReturned),
        ("lease_lost", RunReturned),
    ],
)
def test_an_attempt_that_was_stopped_ends_by_the_cause_and_a_lost_lease_is_no_failure_of_the_job(
    kind: StopKind, event: type[RunEvent]
) -> None:
    end = result_of_stop(StopCause(kind=kind, reason="stopped"))
    assert type(classify(attempt(), end, NOW)) is event


def test_a_lease_that_is_lost_again_and_again_is_a_poison_in_the_end() -> None:
    lost = result_of_stop(StopCause(kind="lease_lost", reason="its lease was lost"))
    again, last = (
        classify(replace(attempt(), crash_count=crashes), lost, NOW)
        for crashes in (CRASH_LIMIT - 2, CRASH_LIMIT - 1)
    )
    assert isinstance(again, RunReturned)
    assert again.crash_count == CRASH_LIMIT - 1
    assert isinstance(last, RunFailed)
    assert (last.retry_at, last.reason) == (None, "its lease was lost; 5 crashes, no further attempt")


@pytest.mark.parametrize(
    ("spec", "run", "end", "wait"),
    [
        ({}, {}, Failed(reason="x"), None),
        ({"max_retries": 2}, {}, Failed(reason="x"), 10),
        ({"max_retries": 2}, {"attempt": 2}, Failed(reason="x"), 20),
        ({"max_retries": 2}, {"attempt": 3}, Failed(reason="x"), None),
        ({"max_retries": 2}, {"attempt": 5, "first_attempt": 4}, Failed(reason="x"), 20),
        ({"max_retries": 2}, {}, Failed(reason="x", after_seconds=99), 99),
        ({"max_retries": 0}, {}, Failed(reason="x", after_seconds=99), None),
        ({"max_retries": 2}, {}, Failed(reason="x", final=True), None),
        (
            {"max_retries": 2, "codes": (3,)},
            {},
            Failed(reason="x", details=Details(exit_code=3)),
            None,
        ),
        (
            {"max_retries": 2, "codes": (3,)},
            {},
            Failed(reason="x", details=Details(exit_code=4)),
            10,
        ),
        (
            {"max_retries": 2, "errors": ("KeyError",)},
            {},
            Failed(reason="x", error="KeyError"),
            None,
        ),
        (
            {"max_retries": 2, "errors": ("KeyError",)},
            {},
            Failed(reason="x", error="OSError"),
            10,
        ),
        ({"max_retries": 2}, {}, TimedOut(reason="x"), 10),
        ({"max_retries": 2, "on_timeout": False}, {}, TimedOut(reason="x"), None),
    ],
)
def test_the_next_attempt(spec: dict[str, Any], run: dict[str, Any], end: Result, wait: float | None) -> None:
    policy = Retry(
        initial_seconds=10,
        factor=2,
        jitter=False,
        non_retryable_exit_codes=spec.get("codes", ()),
        non_retryable_errors=spec.get("errors", ()),
        retry_on_timeout=spec.get("on_timeout", True),
    )
    event = classify(attempt(max_retries=spec.get("max_retries", 0), retry=policy, run=run), end, NOW)
    assert isinstance(event, RunFailed | RunTimedOut)
    assert event.retry_at == (None if wait is None else NOW + wait * 1_000_000)


def test_what_was_found_goes_with_the_outcome() -> None:
    details = Details(exit_code=0, log_url="/v1/runs/x/log", cpu_seconds=0.5, memory_bytes=1024)
    event = classify(attempt(), Succeeded(output={"rows": 3}, details=details), NOW)
    assert isinstance(event, RunSucceeded)
    assert (event.exit_code, event.log_url, event.cpu_seconds, event.memory_bytes) == (
        0,
        "/v1/runs/x/log",
        0.5,
        1024,
    )
    assert event.output == {"rows": 3}


def test_a_snooze_lasts_as_long_as_asked() -> None:
    event = classify(attempt(), Snoozed(seconds=1.5, reason="busy"), NOW)
    assert isinstance(event, RunSnoozed)
    assert (event.until, event.reason) == (NOW + 1_500_000, "busy")


def test_a_rejected_outcome_keeps_both_tokens_and_what_it_would_have_been() -> None:
    late = attempt(token=7)
    event = rejected(late, classify(late, Succeeded(), NOW), current_token=9)
    assert (event.fencing_token, event.current_token, event.outcome) == (7, 9, "succeeded")
