"""The run state machine, as one table. The picture in docs/run-states.md and a test are made from it."""

from typing import Literal

from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
    OutcomeRejected,
    RunCancelled,
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
    ScheduleEnded,
    SkipRequested,
)

RunStatus = Literal[
    "WAITING",
    "QUEUED",
    "RUNNING",
    "RETRYING",
    "SUCCESS",
    "FAILED",
    "TIMED_OUT",
    "CANCELLED",
    "SKIPPED",
    "MISSED",
]

ACTIVE: frozenset[RunStatus] = frozenset({"WAITING", "QUEUED", "RUNNING", "RETRYING"})
TERMINAL: frozenset[RunStatus] = frozenset(
    {"SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED"}
)

_ATTEMPT_ENDS: dict[type, RunStatus | tuple[RunStatus, RunStatus]] = {
    RunSucceeded: "SUCCESS",
    RunFailed: ("FAILED", "RETRYING"),
    RunTimedOut: ("TIMED_OUT", "RETRYING"),
    RunSnoozed: "WAITING",
    RunReturned: "WAITING",
    RunCancelled: "CANCELLED",
    RunLost: ("FAILED", "QUEUED"),
    RunsMissed: "MISSED",
}
_REVIVED: dict[type, RunStatus | tuple[RunStatus, RunStatus]] = {RunRetryRequested: "WAITING"}

TRANSITIONS: dict[RunStatus | None, dict[type, RunStatus | tuple[RunStatus, RunStatus]]] = {
    None: {
        RunRequested: "WAITING",
        RunWaiting: "WAITING",
        RunQueued: "QUEUED",
        RunSkipped: "SKIPPED",
        RunsMissed: "MISSED",
        RunCancelled: "CANCELLED",
        RunRetryRequested: "WAITING",
    },
    "WAITING": {
        RunWaiting: "WAITING",
        RunQueued: "QUEUED",
        RunSkipped: "SKIPPED",
        RunsMissed: "MISSED",
        RunCancelled: "CANCELLED",
        RunCancelRequested: "WAITING",
        RunFailed: "FAILED",
        RunSucceeded: "SUCCESS",
    },
    "QUEUED": {
        **_ATTEMPT_ENDS,
        RunStarted: "RUNNING",
        RunCancelRequested: "QUEUED",
    },
    "RUNNING": {
        **_ATTEMPT_ENDS,
        RunStarted: "RUNNING",
        RunCancelRequested: "RUNNING",
    },
    "RETRYING": {
        RunQueued: "QUEUED",
        RunCancelled: "CANCELLED",
        RunCancelRequested: "RETRYING",
        RunsMissed: "MISSED",
    },
    "SUCCESS": {},
    "FAILED": _REVIVED,
    "TIMED_OUT": _REVIVED,
    "CANCELLED": _REVIVED,
    "SKIPPED": _REVIVED,
    "MISSED": _REVIVED,
}
"""(state, event) -> state. A pair of states: the run ends in the first, or goes on in the second."""

EVIDENCE = (
    OutcomeRejected,
    ScheduleEnded,
    SkipRequested,
    BackfillRequested,
    BackfillSteered,
    BackfillEnded,
)
"""Events that never change a run."""


def goes_on(event: RunEvent) -> bool:
    """Whether an event with two possible targets takes the second."""
    if isinstance(event, RunFailed | RunTimedOut):
        return event.retry_at is not None
    if isinstance(event, RunLost):
        return not event.dead
    return False


def transition(status: RunStatus | None, event: RunEvent) -> RunStatus | None:
    """The state after an event, or None where the table has no such step: the event is stale and changes nothing."""
    target = TRANSITIONS[status].get(type(event))
    if isinstance(target, tuple):
        return target[1] if goes_on(event) else target[0]
    return target


def is_stale(attempt: int, executor_id: str | None, event: RunEvent) -> bool:
    """Whether an executor speaks of another attempt than the current one, or for an executor that was replaced."""
    match event:
        case RunStarted():
            return event.attempt != attempt
        case RunSucceeded() | RunFailed() | RunTimedOut() | RunSnoozed() | RunReturned():
            return event.attempt != attempt or executor_id not in (None, event.executor_id)
        case RunLost():
            return event.attempt != attempt
        case _:
            return False
