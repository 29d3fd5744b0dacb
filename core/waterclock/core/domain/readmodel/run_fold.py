"""How an event changes the row of its run.

Which steps there are is the domain's table (`core.domain.run`), the same that the owner of the partition
decides by: what the table has no step for is stale or a repetition, and changes nothing. Here is what each step writes.
"""

from typing import assert_never

from waterclock.core.domain.instants import rfc3339
from waterclock.core.domain.readmodel import workflow_fold
from waterclock.core.domain.readmodel.rows import AttemptRow, RunRow, clean, json_value, scheduled_in
from waterclock.core.domain.run.states import is_stale, transition
from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    DependentChanged,
    LettersDelivered,
    NodeCleared,
    NodeMarked,
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
from waterclock.proto.verdicts import RunStatus


def begin(event: RunEvent, sequence: int, namespace: str) -> tuple[RunRow, AttemptRow | None] | None:
    """The row of a run that has none yet, and the attempt it left behind. None: the event makes no run.

    Usually this is the run's first event. If the log was trimmed it may be any, and the row shows what it tells.
    """
    before: RunStatus | None = None
    trigger = "schedule"
    version: int | None = None
    parent: str | None = None
    epoch: int | None = None
    attempt = 0
    due = scheduled = created = event.at
    match event:
        case RunQueued() | RunWaiting() | RunOpened():
            scheduled, due, version, trigger = event.scheduled, event.due, event.version, event.trigger
            parent, epoch = event.parent, event.epoch
        case RerunRequested():
            scheduled = due = event.scheduled
            version, epoch, trigger = event.version, event.epoch, "now"
        case NodeMarked():
            scheduled = due = event.scheduled
            version, parent, epoch, trigger = event.version, event.parent, event.epoch, "workflow"
        case RunProgressed() | RunClosed():
            before = "RUNNING"
            scheduled = due = scheduled_in(event.run_id) or event.at
        case RunReported():
            before, attempt = "RUNNING", event.attempt
            scheduled = due = scheduled_in(event.run_id) or event.at
        case RunRequested():
            scheduled = event.at if event.scheduled is None else event.scheduled
            version, trigger = event.version, event.trigger
        case RunSkipped():
            scheduled, due, version = event.scheduled, event.due, event.version
            parent, epoch = event.parent, event.epoch
            trigger = event.trigger
        case RunsMissed():
            scheduled = due = event.scheduled
            version, trigger = event.version, event.trigger
        case RunCancelled():
            scheduled = due = event.scheduled or scheduled_in(event.run_id) or event.at
            version, attempt, parent, epoch = event.version, event.attempt, event.parent, event.epoch
        case RunRetryRequested():
            scheduled, version, attempt, trigger = event.scheduled, event.version, event.attempt, "now"
            parent, epoch = event.parent, event.epoch
        case RunStarted() | RunLost():
            before, attempt = "QUEUED", event.attempt
            scheduled = due = scheduled_in(event.run_id) or event.at
        case RunSucceeded() | RunFailed() | RunTimedOut() | RunSnoozed() | RunReturned():
            before, attempt = "QUEUED", event.attempt
            created = event.started
            scheduled = due = scheduled_in(event.run_id) or created
        case RunCancelRequested() | OutcomeRejected() | ScheduleEnded():
            return None
        case SkipRequested() | BackfillRequested() | BackfillSteered() | BackfillEnded() | NodeCleared():
            return None
        case DependenciesChanged() | DependentChanged() | DependencyCompleted() | DependenciesUsed():
            return None
        case LettersDelivered():
            return None
        case _:
            assert_never(event)
    status = transition(before, event)
    if status is None:
        return None
    row = RunRow(
        run_id=event.run_id,
        job_id=workflow_fold.job_in_rows(event.run_id, trigger),
        namespace=namespace,
        workflow_run_id=parent,
        epoch=epoch,
        status=before or "WAITING",
        trigger=trigger,
        version=version,
        attempt_number=attempt,
        scheduled_time=scheduled,
        due_time=due,
        modified_time=event.at,
        first_sequence=sequence,
        last_sequence=sequence,
        created_at=created,
    )
    left = _write(row, event)
    row.status = status
    return row, left


def advance(row: RunRow, event: RunEvent, sequence: int) -> tuple[bool, AttemptRow | None]:
    """Apply an event. Answers whether it changed the row, and the attempt it left behind, if it did."""
    if is_stale(row.attempt_number, row.executor_id, event) or _is_repeated(row, event):
        return False, None
    status = transition(row.status, event)
    if status is None:
        return False, None
    left = _write(row, event)
    row.status = status
    row.modified_time = event.at
    row.last_sequence = sequence
    return True, left


def _is_repeated(row: RunRow, event: RunEvent) -> bool:
    """A frame may be in the log twice, if its writer lost the acknowledgement and the server the message id."""
    match event:
        case RunQueued():
            return event.attempt < row.attempt_number or event.at == row.queued_time
        case RunOpened():
            return event.at == row.start_time
        case RunRetryRequested():
            return event.attempt < row.attempt_number
        case RunLost():
            return event.crash_count <= row.crash_count
        case _:
            return False


def _write(row: RunRow, event: RunEvent) -> AttemptRow | None:
    match event:
        case RunQueued():
            if row.executor_id is not None or row.start_time is not None or row.end_time is not None:
                _new_try(row)
            row.attempt_number, row.crash_count = event.attempt, event.crash_count
            row.version, row.due_time, row.queued_time = event.version, event.due, event.at
            row.queue, row.tier, row.priority = event.queue, event.tier, event.priority
            handler = event.handler
            row.reason = None if handler is None else f"waiting for a worker that serves handler {handler}"
        case RunStarted():
            _new_try(row)
            row.executor_id, row.start_time, row.fencing_token = (
                event.executor_id,
                event.at,
                event.fencing_token,
            )
            row.reason = None
        case RunReported():
            row.executor_id = event.executor_id
            row.output = json_value({"progress": event.done, "note": event.note})
        case RunSucceeded():
            _end(row, event)
            row.reason = None
        case RunFailed() | RunTimedOut():
            _end(row, event)
            row.reason, row.error_message = clean(event.reason), clean(event.error_message)
            if event.retry_at is not None:
                row.due_time = event.retry_at
                return _leave(row, "FAILED" if isinstance(event, RunFailed) else "TIMED_OUT")
        case RunSnoozed():
            _end(row, event)
            row.reason = clean(event.reason) or "snoozed by its handler"
            row.due_time = event.until
            return _uncounted(row, "SNOOZED")
        case RunReturned():
            _end(row, event)
            row.reason = clean(event.reason) or f"handed back by {event.executor_id}"
            row.crash_count = max(row.crash_count, event.crash_count)
            return _uncounted(row, "RETURNED")
        case RunLost():
            row.crash_count = event.crash_count
            row.executor_id = event.executor_id or row.executor_id
            row.end_time, row.reason = event.at, clean(event.reason) or "its executor died"
            if not event.dead:
                lost = _leave(row, "LOST")
                _new_try(row)
                return lost
        case RunCancelled():
            if row.status in ("WAITING", "RETRYING"):
                _new_try(row)
            row.end_time, row.reason = event.at, clean(event.reason)
            row.executor_id = event.executor_id or row.executor_id
            row.start_time = event.started or row.start_time
            row.exit_code, row.log_url = event.exit_code, clean(event.log_url) or row.log_url
        case RunRequested():
            row.reason = f"requested by {clean(event.actor)}" if event.actor else None
        case RunWaiting():
            row.reason = clean(event.reason)
            row.epoch = row.epoch if event.epoch is None else event.epoch
        case RunSkipped():
            _new_try(row)
            row.reason, row.end_time = clean(event.reason), event.at
        case RunsMissed():
            _new_try(row)
            row.reason, row.end_time, row.fires = _missed(event), event.at, event.count
        case RunCancelRequested():
            row.reason = _asked("cancellation requested", event.actor, event.reason)
        case RunRetryRequested():
            left = _leave(row, row.status) if row.status in ("FAILED", "TIMED_OUT") else None
            _new_try(row)
            row.reason, row.due_time = _asked("redrive requested", event.actor, ""), event.at
            return left
        case RunOpened() | RunProgressed() | RunClosed() | RerunRequested() | NodeCleared() | NodeMarked():
            workflow_fold.write(row, event)
        case OutcomeRejected() | ScheduleEnded():
            pass
        case SkipRequested() | BackfillRequested() | BackfillSteered() | BackfillEnded():
            pass
        case DependenciesChanged() | DependentChanged() | DependencyCompleted() | DependenciesUsed():
            pass
        case LettersDelivered():
            pass
        case _:
            assert_never(event)
    return None


def _leave(row: RunRow, status: str) -> AttemptRow:
    """The attempt the run was in, as it is remembered once the run has left it."""
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


def _uncounted(row: RunRow, status: str) -> AttemptRow:
    """The try does not count: the next one has the same number."""
    left = _leave(row, status)
    row.attempt_number -= 1
    return left


def _end(row: RunRow, event: Outcome) -> None:
    row.executor_id, row.start_time, row.end_time = event.executor_id, event.started, event.at
    row.exit_code, row.log_url = event.exit_code, clean(event.log_url)
    row.cpu_seconds, row.memory_bytes = event.cpu_seconds, event.memory_bytes
    row.fencing_token = event.fencing_token
    row.output = None if event.output is None else json_value(event.output)


def _new_try(row: RunRow) -> None:
    row.executor_id = row.start_time = row.end_time = row.exit_code = row.error_message = row.output = None
    row.log_url = row.cpu_seconds = row.memory_bytes = row.fencing_token = None


def _missed(event: RunsMissed) -> str:
    reason = clean(event.reason) or ""
    if event.count == 1:
        return reason
    return f"{event.count} fires from {rfc3339(event.scheduled)} to {rfc3339(event.until)}: {reason}"


def _asked(what: str, actor: str, reason: str) -> str:
    who = f" by {clean(actor)}" if actor else ""
    return f"{what}{who}: {clean(reason)}" if reason else what + who
