"""How an event makes the row of its run, or changes it.

Which steps there are is the domain's table (`core.domain.run.states`), the same that the owner of the partition
decides by: what the table has no step for is stale or a repetition, and changes nothing. What each step writes into
the row is in `run_steps`.
"""

from typing import assert_never

from waterclock.core.domain.ids import job_of, part_path, scheduled_of
from waterclock.core.domain.readmodel.rows import AttemptRow, RunRow
from waterclock.core.domain.readmodel.run_steps import waits_for_handler, write_step
from waterclock.core.domain.run.states import attempt_used_up, is_stale, transition
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


def new_run_row(event: RunEvent, sequence: int, namespace: str) -> tuple[RunRow, AttemptRow | None] | None:
    """The row of a run that has none yet, and the attempt that the event ended. None: the event makes no run.

    Usually this is the run's first event. If the log was trimmed it may be any, and the row holds what that one says.
    """
    if type(event) is RunQueued:
        return _queued_row(event, sequence, namespace), None
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
            scheduled = due = scheduled_of(event.run_id) or event.at
        case RunReported():
            before, attempt = "RUNNING", event.attempt
            scheduled = due = scheduled_of(event.run_id) or event.at
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
            scheduled = due = event.scheduled or scheduled_of(event.run_id) or event.at
            version, attempt, parent, epoch = event.version, event.attempt, event.parent, event.epoch
        case RunRetryRequested():
            scheduled, version, attempt, trigger = event.scheduled, event.version, event.attempt, "now"
            parent, epoch = event.parent, event.epoch
        case RunStarted() | RunLost():
            before, attempt = "QUEUED", event.attempt
            scheduled = due = scheduled_of(event.run_id) or event.at
        case RunSucceeded() | RunFailed() | RunTimedOut() | RunSnoozed() | RunReturned():
            before, attempt = "QUEUED", event.attempt
            created = event.started
            scheduled = due = scheduled_of(event.run_id) or created
        case RunCancelRequested() | OutcomeRejected() | ScheduleEnded():
            return None
        case SkipRequested() | BackfillRequested() | BackfillSteered() | BackfillEnded() | NodeCleared():
            return None
        case DependenciesChanged() | DependentChanged() | DependencyCompleted() | DependenciesUsed():
            return None
        case NoticesDelivered():
            return None
        case _:
            assert_never(event)
    status = transition(before, event)
    if status is None:
        return None
    row = RunRow(
        run_id=event.run_id,
        job_id=_listed_job(event.run_id, trigger),
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
    ended_attempt = write_step(row, event)
    row.status = status
    return row, ended_attempt


def _queued_row(event: RunQueued, sequence: int, namespace: str) -> RunRow:
    """What nearly all runs begin with, in one step: half of what it costs to make a row and then write into it."""
    run_id, at, handler = event.run_id, event.at, event.handler
    return RunRow(
        run_id=run_id,
        job_id=_listed_job(run_id, event.trigger),
        namespace=namespace,
        workflow_run_id=event.parent,
        epoch=event.epoch,
        status="QUEUED",
        reason=None if handler is None else waits_for_handler(handler),
        trigger=event.trigger,
        version=event.version,
        attempt_number=event.attempt,
        crash_count=event.crash_count,
        scheduled_time=event.scheduled,
        due_time=event.due,
        queued_time=at,
        modified_time=at,
        queue=event.queue,
        tier=event.tier,
        priority=event.priority,
        first_sequence=sequence,
        last_sequence=sequence,
        created_at=at,
    )


def update_run_row(row: RunRow, event: RunEvent, sequence: int) -> tuple[bool, AttemptRow | None]:
    """Apply an event. Returns whether it changed the row, and the attempt that it ended, if it did."""
    if is_stale(row.attempt_number, row.executor_id, event) or _is_repeated(row, event):
        return False, None
    status = transition(row.status, event)
    if status is None:
        used_up = attempt_used_up(row.status, row.attempt_number, event)
        if used_up is None:
            return False, None
        row.attempt_number, row.last_sequence = used_up, sequence
        return True, None
    ended_attempt = write_step(row, event)
    row.status = status
    row.modified_time = event.at
    row.last_sequence = sequence
    return True, ended_attempt


def _is_repeated(row: RunRow, event: RunEvent) -> bool:
    """A frame may be in the log twice, if its writer lost the acknowledgement and the server the message id."""
    match event:
        case RunStarted() | RunSucceeded() | RunFailed() | RunTimedOut() | RunSnoozed() | RunReturned():
            return False
        case RunQueued():
            return event.attempt < row.attempt_number or event.at == row.queued_time
        case RunOpened():
            return event.at == row.start_time
        case RunRetryRequested():
            return event.attempt < row.attempt_number
        case RunLost():
            return event.crash_count <= row.crash_count
        case RunWaiting() | RunRequested() | RunReported() | RunProgressed() | RunClosed() | RunCancelled():
            return False
        case RunSkipped() | RunsMissed() | RunCancelRequested() | OutcomeRejected() | ScheduleEnded():
            return False
        case RerunRequested() | NodeCleared() | NodeMarked() | SkipRequested():
            return False
        case BackfillRequested() | BackfillSteered() | BackfillEnded():
            return False
        case DependenciesChanged() | DependentChanged() | DependencyCompleted() | DependenciesUsed():
            return False
        case NoticesDelivered():
            return False
        case _:
            assert_never(event)


def _listed_job(run_id: str, trigger: str) -> str:
    """Under which job a run is listed: a node's runs and a fan-out's members are not among those of the whole."""
    if "~" not in run_id:
        return job_of(run_id)
    path = part_path(run_id)
    if path and trigger == "fan_out":
        path[-1] = "member"
    return "~".join((job_of(run_id), *path))
