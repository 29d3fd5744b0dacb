"""What an event does to a partition's state: `evolve`, in place.

An event about a run that is in the state advances or ends it; the table in `run/states.py` says which. About a run that
is not there, it begins one, or it concerns a schedule, a backfill or dependencies.
"""

from typing import assert_never

from waterclock.core.domain.ids import job_of, member_attempt, node_of
from waterclock.core.domain.partition import dependency_state, run_parts
from waterclock.core.domain.partition.room import route_of
from waterclock.core.domain.partition.run_parts import FanOutState, WorkflowRunState
from waterclock.core.domain.partition.state import Backfill, Ended, PartitionState, Run
from waterclock.core.domain.run.states import is_stale, transition
from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
    Cursor,
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    DependentChanged,
    Instant,
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
from waterclock.proto.verdicts import TERMINAL, RunStatus

_OF_SCHEDULES = ("schedule", "catch_up")
"""What triggered a fire of a schedule."""


def evolve(state: PartitionState, event: RunEvent) -> Ended | None:
    """Apply one event; says when it ended its run. An event the table has no step for changes nothing."""
    run = state.runs.get(event.run_id)
    if run is None:
        _without_run(state, event)
        return None
    return change_run(state, run, event)


def change_run(state: PartitionState, run: Run, event: RunEvent) -> Ended | None:
    """Apply an event about a run that is in the state."""
    if type(event) is RunsMissed and event.count > 1:
        return None
    if is_stale(run.attempt, run.executor_id, event):
        return None
    status = transition(run.status, event)
    if status is None:
        return None
    if status in TERMINAL:
        _end(state, run, event, status)
        return Ended(run, status)
    run.status = status
    _advance(state, run, event)
    return None


def begin_queued(state: PartitionState, event: RunQueued, job_id: str, route: str) -> Run:
    """A fire of a schedule is queued: a run that is new, and no part of another. `job_id`, `route`: as the event says,
    for who knows them already."""
    run_id = event.run_id
    _mark_fire(state, job_id, event.scheduled, event.due, event.version)
    run = state.runs[run_id] = Run(
        run_id=run_id,
        job_id=job_id,
        version=event.version,
        scheduled=event.scheduled,
        due=event.due,
        status="QUEUED",
        attempt=event.attempt,
        first_attempt=event.first_attempt,
        crash_count=event.crash_count,
        trigger=event.trigger,
        queued_at=event.at,
        pause_after=event.pause_after,
        epoch=event.epoch,
        output_kept=event.output_kept,
        item=event.item,
        once=event.once,
        route=route,
        priority=event.priority,
        parcel=event.parcel,
        start_by=event.start_by,
        exact=event.exact,
    )
    if state.skips:
        state.skips.pop(run_id, None)
    if event.fire is not None:
        state.fires_taken[job_id] = event.fire
    return run


def end_once(state: PartitionState, run: Run, event: RunSucceeded) -> bool:
    """The only run of a job has succeeded, and nothing else in the state hangs on it: `change_run` for what is most
    frequent. False: something may, and nothing has changed."""
    if (
        not run.once
        or not (run.status == "QUEUED" or run.status == "RUNNING")
        or run.attempt != event.attempt
        or (run.executor_id is not None and run.executor_id != event.executor_id)
        or run.parts
        or run.parent is not None
        or run.pause_after is not None
        or state.failures
        or run.job_id in state.notices.dependents
    ):
        return False
    del state.runs[run.run_id]
    if run.notifies_dependents:
        dependency_state.remember_success(state.notices, run.job_id, run.run_id, run.scheduled)
    return True


def move_cursor(state: PartitionState, cursor: Cursor) -> None:
    """The owner has come further. What its cursor covers now need not be remembered as decided ahead of it."""
    before, state.cursor = state.cursor, cursor
    jobs, decided = cursor.settled_jobs, (cursor.time + 1, cursor.through)
    if state.ahead and (*decided, jobs) != (before.time + 1, before.through, before.settled_jobs):
        state.ahead = {job: mark for job, mark in state.ahead.items() if mark[1:] > decided or mark[2] > jobs}


def _end(state: PartitionState, run: Run, event: RunEvent, status: RunStatus) -> None:
    del state.runs[run.run_id]
    if run.parts:
        state.workflow_runs.pop(run.run_id, None)
        state.fan_outs.pop(run.run_id, None)
    if state.failures or run.pause_after is not None:
        _count_failures(state, run, event)
    if status == "SUCCESS" and run.notifies_dependents:
        notices = state.notices
        if run.once:
            dependency_state.remember_success(notices, run.job_id, run.run_id, run.scheduled)
        if run.job_id in notices.dependents:
            dependency_state.notify_dependents(notices, run.job_id, run.run_id, run.scheduled, event.at)
    if run.parent is None:
        return
    output = event.output if isinstance(event, RunSucceeded | RunClosed | NodeMarked) else None
    if run.parent in state.workflow_runs:
        kept = output if run.output_kept else None
        run_parts.node_ended(state.workflow_runs[run.parent], run.run_id, status, kept)
    elif run.parent in state.fan_outs:
        if member_attempt(run.run_id) == state.runs[run.parent].attempt:
            run_parts.member_ended(state.fan_outs[run.parent], run.run_id, status, output)
    elif run.parent in state.backfills:
        backfill = state.backfills[run.parent]
        backfill.active -= 1
        if status == "SUCCESS":
            backfill.succeeded += 1
        else:
            backfill.failed += 1


def _without_run(state: PartitionState, event: RunEvent) -> None:
    """An event whose run is not in the state: it begins one, or is about something else. What is most frequent comes
    first."""
    match event:
        case RunQueued(again=True):
            pass
        case RunQueued(parent=None) if event.trigger in _OF_SCHEDULES:
            route = route_of(event.queue, event.handler, event.tier)
            begin_queued(state, event, job_of(event.run_id), route)
        case RunQueued() | RunWaiting() | RunOpened():
            if _is_void(state, event):
                if event.trigger == "fan_out":
                    state.orphans[event.run_id] = None
                return
            job_id = job_of(event.run_id)
            if event.trigger in _OF_SCHEDULES:
                _mark_fire(state, job_id, event.scheduled, event.due, event.version)
            run = Run(
                run_id=event.run_id,
                job_id=job_id,
                version=event.version,
                scheduled=event.scheduled,
                due=event.due,
                status="QUEUED",
                trigger=event.trigger,
                parent=event.parent,
                epoch=event.epoch,
            )
            _begin(state, run, event)
        case RunRequested():
            run = _requested_run(event, event.at if event.scheduled is None else event.scheduled)
            run.trigger, run.parameters = event.trigger, event.parameters
            _begin(state, run, event)
        case RerunRequested():
            run = _requested_run(event, event.scheduled)
            run.epoch, run.parts, run.parameters = event.epoch, "wave", event.parameters
            state.workflow_runs[run.run_id] = run_parts.workflow_run_again(event)
            _begin(state, run, event)
        case RunRetryRequested():
            run = _requested_run(event, event.scheduled)
            run.attempt, run.first_attempt = event.attempt, event.attempt + 1
            run.parent, run.epoch = event.parent, event.epoch
            _begin(state, run, event)
        case RunSkipped():
            state.skips.pop(event.run_id, None)
            if event.parent is None and event.trigger in _OF_SCHEDULES:
                job_id = job_of(event.run_id)
                _mark_fire(state, job_id, event.scheduled, event.due, event.version)
            if event.parent in state.workflow_runs:
                run_parts.node_skipped(state.workflow_runs[event.parent], event.run_id, event.blocked)
        case NodeMarked():
            if event.parent in state.workflow_runs:
                workflow_run = state.workflow_runs[event.parent]
                run_parts.node_marked(workflow_run, event.run_id, event.succeeded, event.output)
        case RunsMissed():
            if (
                event.trigger in _OF_SCHEDULES and event.attempt is None
            ):  # else it was marked when it was queued
                _mark_fire(state, job_of(event.run_id), event.until, event.at, event.version)
        case RunCancelled():
            state.orphans.pop(event.run_id, None)
            if event.parent in state.workflow_runs:
                run_parts.node_ended(state.workflow_runs[event.parent], event.run_id, "CANCELLED", None)
        case SkipRequested():
            state.skips[event.run_id] = event.note or f"skipped by {event.actor or 'somebody'}"
        case BackfillRequested():
            state.backfills[event.run_id] = Backfill(
                backfill_id=event.run_id,
                job_id=job_of(event.run_id),
                version=event.version,
                fires=event.fires,
                max_active=event.max_active,
            )
        case BackfillSteered():
            backfill = state.backfills.get(event.run_id)
            if backfill is not None:
                backfill.paused = event.action == "pause"
                backfill.cancelled = backfill.cancelled or event.action == "cancel"
        case BackfillEnded():
            state.backfills.pop(event.run_id, None)
        case DependenciesChanged():
            dependency_state.dependencies_changed(state.notices, state.dependencies, event)
        case DependencyCompleted():
            dependency_state.dependency_completed(state.dependencies, event)
        case DependenciesUsed():
            dependency_state.dependencies_used(state.dependencies, event)
        case DependentChanged():
            dependency_state.dependent_changed(state.notices, event)
        case NoticesDelivered():
            dependency_state.notices_delivered(state.notices, event.notices)
        case (
            RunStarted()
            | RunSucceeded()
            | RunFailed()
            | RunTimedOut()
            | RunSnoozed()
            | RunReturned()
            | RunLost()
            | RunCancelRequested()
            | RunProgressed()
            | RunReported()
            | RunClosed()
            | NodeCleared()
            | OutcomeRejected()
            | ScheduleEnded()
        ):
            pass  # of a run that has ended, or that no partition state keeps
        case _:
            assert_never(event)


def _mark_fire(state: PartitionState, job_id: str, scheduled: Instant, due: Instant, version: int) -> None:
    """A fire is decided; the cursor may come to cover it later."""
    known = state.ahead.get(job_id)
    if known is None:
        state.ahead[job_id] = (scheduled, due, version)
    else:
        state.ahead[job_id] = (max(known[0], scheduled), max(known[1], due), max(known[2], version))


def _begin(state: PartitionState, run: Run, event: RunEvent) -> None:
    state.runs[run.run_id] = run
    state.skips.pop(run.run_id, None)
    if run.parent in state.backfills:
        backfill = state.backfills[run.parent]
        backfill.active += 1
        backfill.position += 1
    elif run.parent in state.fan_outs:
        run_parts.member_begun(state.fan_outs[run.parent], run.run_id)
    _advance(state, run, event)


def _requested_run(event: RunRequested | RerunRequested | RunRetryRequested, scheduled: Instant) -> Run:
    """A run that a user wants: it waits for its owner's decision."""
    return Run(
        run_id=event.run_id,
        job_id=job_of(event.run_id),
        version=event.version,
        scheduled=scheduled,
        due=event.at,
        status="WAITING",
        waits="decision",
        trigger="now",
    )


def _is_void(state: PartitionState, event: RunQueued | RunWaiting | RunOpened) -> bool:
    """A part that begins after its end was settled in another way, or after the end of the whole."""
    if event.trigger == "workflow":
        workflow_run = state.workflow_runs.get(event.parent or "")
        return workflow_run is None or node_of(event.run_id) in workflow_run.nodes
    return event.trigger == "fan_out" and event.parent not in state.fan_outs


def _advance(state: PartitionState, run: Run, event: RunEvent) -> None:
    match event:
        case RunQueued():
            run.status, run.waits = "QUEUED", ""
            run.attempt = event.attempt
            run.first_attempt = event.first_attempt
            run.crash_count = event.crash_count
            run.queued_at = event.at
            run.executor_id = None
            run.due = event.due
            run.pause_after = event.pause_after
            run.output_kept, run.item, run.once = event.output_kept, event.item, event.once
            run.route, run.priority = route_of(event.queue, event.handler, event.tier), event.priority
            run.parcel, run.start_by, run.exact = event.parcel, event.start_by, event.exact
            if event.fire is not None:
                state.fires_taken[run.job_id] = event.fire
        case RunStarted():
            run.executor_id = event.executor_id
        case RunWaiting():
            run.status, run.waits, run.start_by = "WAITING", event.waits_for, event.start_by
            _set_epoch(state, run, event.epoch)
            if event.fire is not None:
                state.fires_taken[run.job_id] = event.fire
        case RunOpened():
            run.status, run.waits, run.parts = "RUNNING", "", event.kind
            run.attempt, run.pause_after, run.output_kept = (
                event.attempt,
                event.pause_after,
                event.output_kept,
            )
            run.parameters, run.once, run.deadline = event.parameters, event.once, event.deadline
            _set_epoch(state, run, event.epoch)
            if event.kind == "wave":
                state.workflow_runs.setdefault(run.run_id, WorkflowRunState()).to_clear = False
            else:
                state.fan_outs[run.run_id] = FanOutState(total=event.total)
            if event.fire is not None:
                state.fires_taken[run.job_id] = event.fire
        case RunProgressed():
            fan_out = state.fan_outs.get(run.run_id)
            if fan_out is not None and fan_out.total is None:
                fan_out.total = event.total
        case RunFailed() | RunTimedOut():
            run.due, run.waits, run.start_by = event.retry_at or event.at, "timer", None
        case RunSnoozed():
            _wait_until(run, event.until)
            run.attempt -= 1
        case RunReturned():
            _wait_until(run, event.at)
            run.attempt -= 1
            run.crash_count = max(run.crash_count, event.crash_count)
        case RunLost():
            run.crash_count = event.crash_count
            run.executor_id = run.start_by = None
        case RunCancelRequested():
            run.cancelling = True
            run.at_once = run.at_once or event.now
            run.timed_out = run.timed_out or event.timed_out
        case RunRequested() | RerunRequested() | RunRetryRequested() | RunReported() | NodeCleared():
            pass  # says nothing that the run does not have by now
        case RunSucceeded() | RunSkipped() | RunsMissed() | RunCancelled() | RunClosed() | NodeMarked():
            pass  # always ends its run
        case (
            SkipRequested()
            | BackfillRequested()
            | BackfillSteered()
            | BackfillEnded()
            | DependenciesChanged()
            | DependentChanged()
            | DependencyCompleted()
            | DependenciesUsed()
            | NoticesDelivered()
            | OutcomeRejected()
            | ScheduleEnded()
        ):
            pass  # never changes a run
        case _:
            assert_never(event)


def _wait_until(run: Run, due: Instant) -> None:
    """The same attempt once more, then: from then on it has as long to start as before."""
    if run.start_by is not None:
        run.start_by += due - run.due
    run.due, run.waits = due, "timer"


def _set_epoch(state: PartitionState, run: Run, epoch: int | None) -> None:
    run.epoch = epoch
    if epoch is not None and epoch > state.epochs.get(run.job_id, 0):
        state.epochs[run.job_id] = epoch


def _count_failures(state: PartitionState, run: Run, event: RunEvent) -> None:
    if run.trigger in ("workflow", "fan_out"):
        return
    if isinstance(event, RunSucceeded) or (isinstance(event, RunClosed) and event.succeeded):
        state.failures.pop(run.job_id, None)
    elif run.pause_after is not None and isinstance(event, RunFailed | RunTimedOut | RunLost | RunClosed):
        state.failures[run.job_id] = state.failures.get(run.job_id, 0) + 1
