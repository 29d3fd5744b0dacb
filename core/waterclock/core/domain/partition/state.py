"""What a partition's owner knows about runs that have not ended: a fold over `RUNS`, and nothing else.

Owned by one task. `evolve` changes it in place: a copy of up to a million runs for each event is not affordable.
"""

from typing import Literal

from msgspec import Struct, field

from waterclock.core.domain.run import TERMINAL, RunStatus, is_stale, transition
from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
    Cursor,
    Instant,
    RunCancelRequested,
    RunEvent,
    RunFailed,
    RunLost,
    RunQueued,
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
    SkipRequested,
    Trigger,
)
from waterclock.proto.names import job_of

Waits = Literal["", "decision", "overlap", "timer"]
"""What a run that is WAITING or RETRYING waits for."""


class Run(Struct, kw_only=True, omit_defaults=True, gc=False):
    run_id: str
    job_id: str
    version: int
    scheduled: Instant
    due: Instant
    status: RunStatus
    waits: Waits = ""
    attempt: int = 0
    first_attempt: int = 1
    crash_count: int = 0
    trigger: Trigger = "schedule"
    queued_at: Instant = 0
    executor_id: str | None = None
    cancelling: bool = False
    pause_after: int | None = None
    parent: str | None = None
    epoch: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether the overlap policy counts this run: run-now and backfill do not disturb the schedule."""
        return self.trigger in ("schedule", "catch_up", "dependency")


class Ended(Struct, frozen=True, gc=False):
    """A run left the state."""

    run: Run
    status: RunStatus


class Backfill(Struct, kw_only=True, omit_defaults=True):
    """Past fires that run beside the live schedule, a few at a time."""

    backfill_id: str
    job_id: str
    version: int
    fires: tuple[Instant, ...]
    max_active: int
    position: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    paused: bool = False
    cancelled: bool = False

    @property
    def finished(self) -> bool:
        return self.active == 0 and (self.cancelled or self.position == len(self.fires))


class PartitionState(Struct, kw_only=True):
    cursor: Cursor = Cursor(jobs=0, time=0)
    runs: dict[str, Run] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    """Fires taken by jobs that have a limit on them."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed runs in a row, for jobs that pause on them."""
    skips: dict[str, str] = field(default_factory=dict)
    """Occurrences to leave out, and why."""
    backfills: dict[str, Backfill] = field(default_factory=dict)
    unpublished: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """Runs queued in frames whose work is not known to be published: (sequence, run ids)."""


def evolve(state: PartitionState, event: RunEvent) -> Ended | None:
    """Apply one event; says when it ended its run. An event the table has no step for changes nothing."""
    if isinstance(event, RunsMissed) and event.count > 1:
        return None
    run = state.runs.get(event.run_id)
    if run is None:
        return _begin(state, event) if not _steer(state, event) else None
    if is_stale(run.attempt, run.executor_id, event):
        return None
    status = transition(run.status, event)
    if status is None:
        return None
    if status in TERMINAL:
        del state.runs[run.run_id]
        _count_failures(state, run, event)
        if run.parent in state.backfills:
            backfill = state.backfills[run.parent]
            backfill.active -= 1
            if status == "SUCCESS":
                backfill.succeeded += 1
            else:
                backfill.failed += 1
        return Ended(run, status)
    run.status = status
    _advance(state, run, event)
    return None


def _steer(state: PartitionState, event: RunEvent) -> bool:
    """Events that concern a schedule or a backfill and not one run."""
    match event:
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
        case _:
            return False
    return True


def _begin(state: PartitionState, event: RunEvent) -> Ended | None:
    match event:
        case RunQueued(again=True):
            return None
        case RunSkipped():
            state.skips.pop(event.run_id, None)
            return None
        case RunQueued() | RunWaiting():
            run = Run(
                run_id=event.run_id,
                job_id=job_of(event.run_id),
                version=event.version,
                scheduled=event.scheduled,
                due=event.due,
                status="QUEUED",
                trigger=event.trigger,
                parent=event.parent,
                epoch=event.epoch,
            )
        case RunRequested():
            scheduled = event.at if event.scheduled is None else event.scheduled
            run = Run(
                run_id=event.run_id,
                job_id=job_of(event.run_id),
                version=event.version,
                scheduled=scheduled,
                due=event.at,
                status="WAITING",
                waits="decision",
                trigger=event.trigger,
            )
        case RunRetryRequested():
            run = Run(
                run_id=event.run_id,
                job_id=job_of(event.run_id),
                version=event.version,
                scheduled=event.scheduled,
                due=event.at,
                status="WAITING",
                waits="decision",
                trigger="now",
                attempt=event.attempt,
                first_attempt=event.attempt + 1,
                parent=event.parent,
                epoch=event.epoch,
            )
        case _:
            return None
    state.runs[run.run_id] = run
    state.skips.pop(run.run_id, None)
    if run.parent in state.backfills:
        backfill = state.backfills[run.parent]
        backfill.active += 1
        backfill.position += 1
    _advance(state, run, event)
    return None


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
            if event.fire is not None:
                state.taken[run.job_id] = event.fire
        case RunWaiting():
            run.status, run.waits = "WAITING", "overlap"
            if event.fire is not None:
                state.taken[run.job_id] = event.fire
        case RunStarted():
            run.executor_id = event.executor_id
        case RunFailed() | RunTimedOut():
            run.due, run.waits = event.retry_at or event.at, "timer"
        case RunSnoozed():
            run.due, run.waits = event.until, "timer"
            run.attempt -= 1
        case RunReturned():
            run.due, run.waits = event.at, "timer"
            run.attempt -= 1
        case RunLost():
            run.crash_count = event.crash_count
            run.executor_id = None
        case RunCancelRequested():
            run.cancelling = True
        case _:
            pass


def _count_failures(state: PartitionState, run: Run, event: RunEvent) -> None:
    if isinstance(event, RunSucceeded):
        state.failures.pop(run.job_id, None)
    elif run.pause_after is not None and isinstance(event, RunFailed | RunTimedOut | RunLost):
        state.failures[run.job_id] = state.failures.get(run.job_id, 0) + 1
