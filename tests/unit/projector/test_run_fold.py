"""What each event of a run makes of its row."""

import msgspec
import pytest

from projector_rig.builders import (
    EXECUTOR,
    T0,
    failed,
    outcome,
    queued,
    requested,
    retry_requested,
    started,
    succeeded,
)
from projector_rig.tables import Tables
from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.readmodel.rows import RunRow
from waterclock.proto.events import (
    NodeCleared,
    NodeMarked,
    OutcomeRejected,
    RunCancelled,
    RunCancelRequested,
    RunEvent,
    RunLost,
    RunOpened,
    RunReported,
    RunReturned,
    RunSkipped,
    RunsMissed,
    RunSnoozed,
    RunTimedOut,
    RunWaiting,
)


def folded(*events: RunEvent) -> tuple[RunRow, Tables]:
    tables = Tables()
    tables.fold([], [(number, (event,)) for number, event in enumerate(events, 1)])
    (row,) = tables.runs.values()
    return row, tables


def test_a_run_from_queue_to_success() -> None:
    q = queued()
    row, tables = folded(q, started(q), succeeded(q, output={"rows": 7}, log_url="logs/1", cpu_seconds=0.5))
    assert (row.status, row.reason, row.attempt_number, row.executor_id) == ("SUCCESS", None, 1, EXECUTOR)
    assert (row.scheduled_time, row.due_time, row.queued_time) == (T0, T0, T0 + 1000)
    assert (row.start_time, row.end_time, row.modified_time) == (T0 + 3000, T0 + 6000, T0 + 6000)
    assert (row.output, row.log_url, row.cpu_seconds) == (b'{"rows":7}', "logs/1", 0.5)
    assert (row.first_sequence, row.last_sequence, row.created_at) == (1, 3, q.at)
    assert not tables.attempts
    assert not tables.dead


def test_a_short_run_has_no_started_event() -> None:
    q = queued()
    row, _ = folded(q, succeeded(q))
    assert (row.status, row.start_time) == ("SUCCESS", q.at + 2000)


def test_a_queued_run_names_the_handler_it_waits_for() -> None:
    q = queued(handler="email_send")
    row, _ = folded(q)
    assert (row.status, row.reason) == ("QUEUED", "waiting for a worker that serves handler email_send")
    row, _ = folded(q, started(q))
    assert (row.status, row.reason) == ("RUNNING", None)


def test_a_run_shows_how_far_it_is_until_it_ends() -> None:
    q = queued()
    half = RunReported(
        run_id=q.run_id, at=q.at + SECOND, attempt=1, executor_id=EXECUTOR, done=0.5, note="1 of 2"
    )
    late = msgspec.structs.replace(half, executor_id="another", done=0.1)
    row, _ = folded(q, started(q), half, late)
    assert (row.status, row.output) == ("RUNNING", b'{"progress":0.5,"note":"1 of 2"}')
    row, _ = folded(q, started(q), half, succeeded(q), half)
    assert (row.status, row.output) == ("SUCCESS", None)


def test_a_failure_with_a_retry_leaves_its_attempt_behind() -> None:
    first = queued()
    again = queued(attempt=2, at=T0 + MINUTE, due=T0 + MINUTE)
    fail = failed(first, retry_at=T0 + MINUTE, error_message="boom", exit_code=3)

    row, tables = folded(first, fail)
    assert (row.status, row.attempt_number, row.due_time, row.exit_code) == ("RETRYING", 1, T0 + MINUTE, 3)
    assert not tables.dead

    row, tables = folded(first, fail, again, succeeded(again))
    assert (row.status, row.attempt_number, row.error_message, row.exit_code) == ("SUCCESS", 2, None, None)
    (attempt,) = tables.attempts.values()
    assert (attempt.attempt_number, attempt.status, attempt.error_message) == (1, "FAILED", "boom")
    assert (attempt.start_time, attempt.end_time) == (fail.started, fail.at)


def test_a_failure_without_a_retry_is_a_dead_letter() -> None:
    q = queued()
    row, tables = folded(q, failed(q, error_message="boom"))
    assert (row.status, row.reason, row.error_message) == ("FAILED", "exit code 1", "boom")
    assert tables.dead.keys() == {q.run_id}
    assert not tables.attempts


@pytest.mark.parametrize(("retry_at", "status"), [(None, "TIMED_OUT"), (T0 + MINUTE, "RETRYING")])
def test_a_timeout_is_told_apart_from_a_failure(retry_at: int | None, status: str) -> None:
    q = queued()
    row, tables = folded(q, RunTimedOut(**outcome(q), reason="over 5 s", retry_at=retry_at))
    assert row.status == status
    assert [attempt.status for attempt in tables.attempts.values()] == (["TIMED_OUT"] if retry_at else [])


def test_a_redrive_revives_a_dead_run_and_removes_its_dead_letter() -> None:
    q = queued()
    asked = retry_requested(q, at=T0 + MINUTE, actor="bob")
    row, tables = folded(q, failed(q), asked)
    assert (row.status, row.reason) == ("WAITING", "redrive requested by bob")
    assert not tables.dead
    assert [attempt.status for attempt in tables.attempts.values()] == ["FAILED"]

    again = queued(attempt=2, at=T0 + MINUTE + 1, first_attempt=2)
    row, tables = folded(q, failed(q), asked, again, succeeded(again))
    assert (row.status, row.attempt_number) == ("SUCCESS", 2)


def test_a_redrive_told_twice_does_not_revive_what_died_again() -> None:
    q = queued()
    asked = retry_requested(q, at=T0 + MINUTE)
    again = queued(attempt=2, at=T0 + MINUTE + 1)
    row, tables = folded(q, failed(q), asked, again, failed(again), asked)
    assert (row.status, row.attempt_number) == ("FAILED", 2)
    assert tables.dead.keys() == {q.run_id}


def test_a_lost_attempt_is_queued_again_with_its_crash_counted() -> None:
    q = queued()
    lost = RunLost(
        run_id=q.run_id, at=T0 + SECOND, attempt=1, crash_count=1, executor_id=EXECUTOR, reason="it died"
    )
    row, tables = folded(q, started(q), lost)
    assert (row.status, row.crash_count, row.attempt_number, row.executor_id) == ("QUEUED", 1, 1, None)
    assert (row.reason, row.start_time) == ("it died", None)
    assert [attempt.status for attempt in tables.attempts.values()] == ["LOST"]
    row, _ = folded(q, started(q), lost, succeeded(q, executor_id="executor-test-000002"))
    assert (row.status, row.executor_id) == ("SUCCESS", "executor-test-000002")


def test_too_many_crashes_make_a_dead_letter() -> None:
    q = queued()
    row, tables = folded(
        q, started(q), RunLost(run_id=q.run_id, at=T0 + SECOND, attempt=1, crash_count=5, dead=True)
    )
    assert (row.status, row.crash_count) == ("FAILED", 5)
    assert tables.dead.keys() == {q.run_id}


@pytest.mark.parametrize(
    ("event", "status", "due"),
    [
        (RunSnoozed(**outcome(queued()), until=T0 + MINUTE), "SNOOZED", T0 + MINUTE),
        (RunReturned(**outcome(queued())), "RETURNED", T0),
    ],
)
def test_an_attempt_that_does_not_count_waits_for_the_same_number(
    event: RunEvent, status: str, due: int
) -> None:
    q = queued()
    row, tables = folded(q, event)
    assert (row.status, row.attempt_number, row.due_time) == ("WAITING", 0, due)
    again = queued(attempt=1, at=T0 + MINUTE)
    row, tables = folded(q, event, again, succeeded(again))
    assert (row.status, row.attempt_number) == ("SUCCESS", 1)
    assert [attempt.status for attempt in tables.attempts.values()] == [status]


def test_a_requested_run_waits_and_then_runs() -> None:
    asked = requested()
    row, _ = folded(asked)
    assert (row.status, row.trigger, row.reason) == ("WAITING", "now", "requested by alice")
    assert (row.scheduled_time, row.attempt_number) == (T0, 0)
    q = queued(run_id=asked.run_id, trigger="now", at=T0 + 500)
    row, _ = folded(asked, q, succeeded(q))
    assert (row.status, row.trigger, row.created_at) == ("SUCCESS", "now", T0)


def test_a_run_that_waits_says_for_what() -> None:
    q = queued()
    waiting = RunWaiting(
        run_id=q.run_id, at=T0, version=1, scheduled=T0, due=T0, reason="overlap: waits for x"
    )
    row, _ = folded(waiting)
    assert (row.status, row.reason) == ("WAITING", "overlap: waits for x")
    row, _ = folded(waiting, q)
    assert (row.status, row.reason, row.created_at) == ("QUEUED", None, T0)


def test_what_did_not_run_says_why() -> None:
    q = queued()
    row, _ = folded(RunSkipped(run_id=q.run_id, at=T0, version=1, scheduled=T0, due=T0, reason="overlap"))
    assert (row.status, row.reason, row.end_time) == ("SKIPPED", "overlap", T0)
    row, _ = folded(
        RunsMissed(
            run_id=q.run_id,
            at=T0 + MINUTE,
            version=1,
            scheduled=T0 - MINUTE,
            until=T0,
            count=2,
            reason="nobody was there",
        )
    )
    assert (row.status, row.fires) == ("MISSED", 2)
    assert row.reason == "2 fires from 2026-11-16T07:59:00Z to 2026-11-16T08:00:00Z: nobody was there"


def test_a_cancelled_run_keeps_what_its_executor_told() -> None:
    q = queued()
    ask = RunCancelRequested(run_id=q.run_id, at=T0 + SECOND, actor="alice", reason="wrong input")
    row, _ = folded(q, started(q), ask)
    assert (row.status, row.reason) == ("RUNNING", "cancellation requested by alice: wrong input")
    row, tables = folded(
        q,
        started(q),
        ask,
        RunCancelled(
            run_id=q.run_id, at=T0 + 2 * SECOND, attempt=1, executor_id=EXECUTOR, exit_code=-15, reason="x"
        ),
    )
    assert (row.status, row.exit_code, row.start_time) == ("CANCELLED", -15, q.at + 2000)
    assert not tables.dead


def test_a_run_cancelled_between_attempts_shows_no_attempt_twice() -> None:
    q = queued()
    cancelled = RunCancelled(run_id=q.run_id, at=T0 + SECOND, attempt=1, reason="by alice")
    row, tables = folded(q, failed(q, retry_at=T0 + MINUTE), cancelled)
    assert (row.status, row.start_time, row.exit_code) == ("CANCELLED", None, None)
    assert len(tables.attempts) == 1


def test_nothing_comes_back_behind_the_end() -> None:
    q = queued()
    late: list[RunEvent] = [
        q,
        started(q),
        failed(q),
        queued(at=T0 + MINUTE),
        RunCancelRequested(run_id=q.run_id, at=T0 + MINUTE),
    ]
    row, tables = folded(q, succeeded(q), *late)
    assert (row.status, row.last_sequence) == ("SUCCESS", 2)
    assert not tables.dead


def test_an_executor_that_was_replaced_is_not_heard() -> None:
    q = queued()
    row, _ = folded(q, started(q), failed(q, executor_id="executor-test-old"))
    assert row.status == "RUNNING"


def test_a_rejected_outcome_changes_nothing() -> None:
    q = queued()
    row, _ = folded(
        q, OutcomeRejected(run_id=q.run_id, at=T0 + SECOND, attempt=1, executor_id=EXECUTOR, fencing_token=3)
    )
    assert (row.status, row.last_sequence) == ("QUEUED", 1)


def test_an_outcome_whose_beginning_has_left_the_log_is_shown_all_the_same() -> None:
    q = queued()
    row, _ = folded(succeeded(q))
    assert (row.status, row.scheduled_time, row.created_at) == ("SUCCESS", T0, q.at + 2000)


def test_what_postgres_would_refuse_does_not_get_there() -> None:
    q = queued()
    row, _ = folded(q, failed(q, reason="a\0b", error_message="\0", output={"k\0": ["v\0", 1]}))
    assert (row.reason, row.error_message, row.output) == ("ab", None, b'{"k":["v",1]}')


def test_a_queueing_told_twice_does_not_wake_a_run_that_snoozes() -> None:
    q = queued()
    row, _ = folded(q, RunSnoozed(**outcome(q), until=T0 + MINUTE), q)
    assert (row.status, row.last_sequence) == ("WAITING", 2)


def test_an_attempt_of_a_node_that_had_been_marked_uses_up_its_number() -> None:
    """Its owner had not read the mark. Members may be named after that attempt: when it is run again, it needs another
    number, which is taken from here."""
    node, parent = "flow@20270115T080000Z~a", "flow@20270115T080000Z"
    marked = NodeMarked(run_id=node, at=T0, version=1, scheduled=T0, succeeded=False, parent=parent)
    opened = RunOpened(
        run_id=node,
        at=T0 + SECOND,
        version=1,
        scheduled=T0,
        due=T0,
        kind="fan_out",
        trigger="workflow",
        attempt=1,
        parent=parent,
    )
    row, tables = folded(marked, opened)
    assert (row.status, row.attempt_number, row.last_sequence) == ("SKIPPED", 1, 2)
    assert row.modified_time == T0, "nothing else came of it"
    assert not tables.attempts
    cleared = NodeCleared(run_id=node, at=T0 + 2 * SECOND, reason="is run again", parent=parent)
    again = msgspec.structs.replace(opened, at=T0 + 3 * SECOND, attempt=2)
    row, _ = folded(marked, opened, cleared, again)
    assert (row.status, row.attempt_number) == ("RUNNING", 2)
