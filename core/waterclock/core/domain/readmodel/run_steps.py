"""What each event writes into the row of its run.

An attempt that ends without ending its run becomes a row of its own (`earlier_attempts`).
"""

from typing import assert_never

from waterclock.core.domain.instants import rfc3339
from waterclock.core.domain.readmodel.rows import AttemptRow, RunRow, clean, json_value
from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    DependentChanged,
    NodeCleared,
    NodeMarked,
    NoticesDelivered,
    Outcome,
    OutcomeRejected,
    RerunRequested,
    RunCancelled,
    RunCancelRequested,
    RunClosed,
    RunEvent,
    RunFailed,
    RunLost,
    RunOpened,
    RunProgressed,
    RunQueued,
    RunReported,
    RunRequested,
    RunRetryRequested,
    RunReturned,
    RunSkipped,
    RunsMissed,
    RunSnoozed,
    RunStarted,
    RunSucceeded,
    RunTimedOut,
    RunWaiting,
    ScheduleEnded,
    SkipRequested,
)

CompositeEvent = RunOpened | RunProgressed | RunClosed | RerunRequested | NodeCleared | NodeMarked


def write_step(row: RunRow, event: RunEvent) -> AttemptRow | None:
    """Write what the event says into the row, but for its status. Returns the attempt that it ended, if it did."""
    match event:
        case RunQueued():
            if row.executor_id is not None or row.start_time is not None or row.end_time is not None:
                _clear_attempt(row)
            row.attempt_number, row.crash_count = event.attempt, event.crash_count
            row.version, row.due_time, row.queued_time = event.version, event.due, event.at
            row.queue, row.tier, row.priority = event.queue, event.tier, event.priority
            handler = event.handler
            row.reason = None if handler is None else waits_for_handler(handler)
        case RunSucceeded():
            _write_outcome(row, event)
            row.reason = lost_log(event) or None
        case RunStarted():
            _clear_attempt(row)
            row.executor_id, row.start_time, row.fencing_token = (
                event.executor_id,
                event.at,
                event.fencing_token,
            )
            row.reason = None
        case RunReported():
            row.executor_id = event.executor_id
            row.output = json_value({"progress": event.done, "note": event.note})
        case RunFailed() | RunTimedOut():
            _write_outcome(row, event)
            row.reason, row.error_message = (
                clean(event.reason + lost_log(event, "; ")),
                clean(event.error_message),
            )
            if type(event) is RunTimedOut:
                row.error_message = row.error_message or row.reason
            if event.retry_at is not None:
                row.due_time = event.retry_at
                return _ended_attempt(row, "FAILED" if isinstance(event, RunFailed) else "TIMED_OUT")
        case RunSnoozed():
            _write_outcome(row, event)
            row.reason = clean(event.reason) or "snoozed by its handler"
            row.due_time = event.until
            return _uncounted_attempt(row, "SNOOZED")
        case RunReturned():
            _write_outcome(row, event)
            row.reason = clean(event.reason) or f"handed back by {event.executor_id}"
            row.crash_count = max(row.crash_count, event.crash_count)
            return _uncounted_attempt(row, "RETURNED")
        case RunLost():
            row.crash_count = event.crash_count
            row.executor_id = event.executor_id or row.executor_id
            row.end_time, row.reason = event.at, clean(event.reason) or "its executor died"
            if not event.dead:
                lost = _ended_attempt(row, "LOST")
                _clear_attempt(row)
                return lost
        case RunCancelled():
            if row.status in ("WAITING", "RETRYING"):
                _clear_attempt(row)
            row.end_time, row.reason = event.at, clean(event.reason)
            row.executor_id = event.executor_id or row.executor_id
            row.start_time = event.started or row.start_time
            row.exit_code, row.log_url = event.exit_code, clean(event.log_url) or row.log_url
            row.cpu_seconds, row.memory_bytes = event.cpu_seconds, event.memory_bytes
        case RunRequested():
            row.reason = f"requested by {clean(event.actor)}" if event.actor else None
        case RunWaiting():
            row.reason = clean(event.reason)
            row.epoch = row.epoch if event.epoch is None else event.epoch
        case RunSkipped():
            _clear_attempt(row)
            row.reason, row.end_time = clean(event.reason), event.at
        case RunsMissed():
            _clear_attempt(row)
            row.reason, row.end_time, row.fires = _missed_reason(event), event.at, event.count
        case RunCancelRequested():
            row.reason = _requested_reason("cancellation requested", event.actor, event.reason)
        case RunRetryRequested():
            ended = _ended_attempt(row, row.status) if row.status in ("FAILED", "TIMED_OUT") else None
            _clear_attempt(row)
            row.reason, row.due_time = _requested_reason("redrive requested", event.actor, ""), event.at
            return ended
        case RunOpened() | RunProgressed() | RunClosed() | RerunRequested() | NodeCleared() | NodeMarked():
            _write_composite_step(row, event)
        case OutcomeRejected() | ScheduleEnded():
            pass
        case SkipRequested() | BackfillRequested() | BackfillSteered() | BackfillEnded():
            pass
        case DependenciesChanged() | DependentChanged() | DependencyCompleted() | DependenciesUsed():
            pass
        case NoticesDelivered():
            pass
        case _:
            assert_never(event)
    return None


def waits_for_handler(handler: str) -> str:
    """The reason of a run that is queued."""
    return f"waiting for a worker that serves handler {handler}"


def _write_composite_step(row: RunRow, event: CompositeEvent) -> None:
    """Of runs that have parts: workflow runs and their nodes, fan-outs."""
    match event:
        case RunOpened():
            row.reason = row.end_time = row.output = None
            row.start_time, row.attempt_number = event.at, event.attempt
            row.version, row.due_time, row.epoch = event.version, event.due, event.epoch
            if event.parameters is not None:
                row.parameters = json_value(event.parameters)
            if event.total is not None:
                row.output = json_value({"total": event.total, "done": 0, "failed": 0})
        case RunProgressed():
            row.output = json_value({"total": event.total, "done": event.done, "failed": event.failed})
        case RunClosed():
            row.end_time, row.reason = event.at, clean(event.reason)
            row.error_message = row.reason if event.timed_out else None
            row.output = None if event.output is None else json_value(event.output)
        case RerunRequested():
            row.reason = clean(event.note) or f"re-run requested by {clean(event.actor) or 'somebody'}"
            row.end_time = row.output = None
        case NodeCleared():
            row.reason = clean(event.reason)
            row.executor_id = row.start_time = row.end_time = row.exit_code = row.error_message = None
            row.output = row.log_url = row.fencing_token = None
        case NodeMarked():
            marked = f"marked as {'succeeded' if event.succeeded else 'skipped'}"
            who = f" by {clean(event.actor)}" if event.actor else ""
            row.reason = f"{marked}{who}: {clean(event.note)}" if event.note else marked + who
            row.end_time = event.at
            row.output = None if event.output is None else json_value(event.output)
        case _:
            assert_never(event)


def _ended_attempt(row: RunRow, status: str) -> AttemptRow:
    """The attempt the run was in, as a row of its own."""
    return AttemptRow(
        row.run_id,
        row.attempt_number,
        row.executor_id,
        status,
        row.reason,
        row.queued_time,
        row.start_time,
        row.modified_time if row.end_time is None else row.end_time,
        row.exit_code,
        row.error_message,
        row.log_url,
        row.cpu_seconds,
        row.memory_bytes,
        row.created_at,
    )


def _uncounted_attempt(row: RunRow, status: str) -> AttemptRow:
    """An attempt that does not count: the next one has the same number."""
    ended = _ended_attempt(row, status)
    row.attempt_number -= 1
    return ended


def _write_outcome(row: RunRow, event: Outcome) -> None:
    row.executor_id, row.start_time, row.end_time = event.executor_id, event.started, event.at
    row.exit_code, row.log_url = event.exit_code, clean(event.log_url)
    row.cpu_seconds, row.memory_bytes = event.cpu_seconds, event.memory_bytes
    row.fencing_token = event.fencing_token
    row.output = None if event.output is None else json_value(event.output)


def lost_log(event: Outcome, before: str = "") -> str:
    """What is said of an attempt whose output is not in the store; nothing, if it is."""
    return f"{before}its output was lost: {clean(event.log_lost)}" if event.log_lost else ""


def _clear_attempt(row: RunRow) -> None:
    row.executor_id = row.start_time = row.end_time = row.exit_code = row.error_message = row.output = None
    row.log_url = row.cpu_seconds = row.memory_bytes = row.fencing_token = None


def _missed_reason(event: RunsMissed) -> str:
    reason = clean(event.reason) or ""
    if event.count == 1:
        return reason
    return f"{event.count} fires from {rfc3339(event.scheduled)} to {rfc3339(event.until)}: {reason}"


def _requested_reason(what: str, actor: str, reason: str) -> str:
    who = f" by {clean(actor)}" if actor else ""
    return f"{what}{who}: {clean(reason)}" if reason else what + who
