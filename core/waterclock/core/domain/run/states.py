"""The run state machine, as one table. `python -m waterclock.core.domain.run.states` draws docs/run-states.md from it,
and a test walks it.
"""

from typing import Any, get_args

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
from waterclock.proto.verdicts import TERMINAL, RunStatus

_ATTEMPT_ENDS: dict[type, RunStatus | tuple[RunStatus, ...]] = {
    RunSucceeded: "SUCCESS",
    RunFailed: ("FAILED", "RETRYING"),
    RunTimedOut: ("TIMED_OUT", "RETRYING"),
    RunSnoozed: "WAITING",
    RunReturned: "WAITING",
    RunCancelled: "CANCELLED",
    RunLost: ("FAILED", "QUEUED"),
    RunsMissed: "MISSED",
}
_BY_HAND: dict[type, RunStatus | tuple[RunStatus, ...]] = {NodeMarked: ("SKIPPED", "SUCCESS")}
_RERUN: dict[type, RunStatus | tuple[RunStatus, ...]] = {
    RerunRequested: "WAITING",
    NodeCleared: "WAITING",
}
_REVIVED: dict[type, RunStatus | tuple[RunStatus, ...]] = {RunRetryRequested: "WAITING", **_RERUN}

TRANSITIONS: dict[RunStatus | None, dict[type, RunStatus | tuple[RunStatus, ...]]] = {
    None: {
        RunRequested: "WAITING",
        RunWaiting: "WAITING",
        RunQueued: "QUEUED",
        RunSkipped: "SKIPPED",
        RunsMissed: "MISSED",
        RunCancelled: "CANCELLED",
        RunRetryRequested: "WAITING",
        RunOpened: "RUNNING",
        RerunRequested: "WAITING",
        **_BY_HAND,
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
        RunOpened: "RUNNING",
        **_BY_HAND,
    },
    "QUEUED": {
        **_ATTEMPT_ENDS,
        **_BY_HAND,
        RunStarted: "RUNNING",
        RunCancelRequested: "QUEUED",
    },
    "RUNNING": {
        **_ATTEMPT_ENDS,
        **_BY_HAND,
        RunStarted: "RUNNING",
        RunCancelRequested: "RUNNING",
        RunProgressed: "RUNNING",
        RunReported: "RUNNING",
        RunClosed: ("FAILED", "SUCCESS", "TIMED_OUT"),
    },
    "RETRYING": {
        **_BY_HAND,
        RunQueued: "QUEUED",
        RunCancelled: "CANCELLED",
        RunCancelRequested: "RETRYING",
        RunsMissed: "MISSED",
    },
    "SUCCESS": _RERUN,
    "FAILED": _REVIVED,
    "TIMED_OUT": _REVIVED,
    "CANCELLED": _REVIVED,
    "SKIPPED": _REVIVED,
    "MISSED": _REVIVED,
}
"""(state, event) -> state. Of several, the event itself says which: see `_which`."""

EVIDENCE = (
    OutcomeRejected,
    ScheduleEnded,
    SkipRequested,
    BackfillRequested,
    BackfillSteered,
    BackfillEnded,
    DependenciesChanged,
    DependentChanged,
    DependencyCompleted,
    DependenciesUsed,
    NoticesDelivered,
)
"""Events that never change a run."""


def _which(event: RunEvent) -> int:
    """Which of several targets an event takes: the second is that the run goes on, or the better end."""
    if isinstance(event, RunFailed | RunTimedOut):
        return int(event.retry_at is not None)
    if isinstance(event, RunLost):
        return int(not event.dead)
    if isinstance(event, RunClosed):
        return 2 if event.timed_out else int(event.succeeded)
    return int(isinstance(event, NodeMarked) and event.succeeded)


def _is_missed_in_queue(status: RunStatus | None, event: RunsMissed) -> bool:
    """Whether the word that a queued attempt was not begun counts. Its owner's does not if somebody has begun it, which
    it had not read; an executor's does also if it has said before that it begins."""
    return status in (None, "QUEUED") or (status == "RUNNING" and bool(event.executor_id))


def transition(status: RunStatus | None, event: RunEvent) -> RunStatus | None:
    """The state after an event, or None where the table has no such step: the event is stale and changes nothing."""
    if type(event) is RunsMissed and event.attempt is not None and not _is_missed_in_queue(status, event):
        return None
    target = TRANSITIONS[status].get(type(event))
    if isinstance(target, tuple):
        return target[_which(event)]
    return target


_BY_EXECUTOR: dict[type, bool] = {RunStarted: False, RunLost: False, RunsMissed: False} | {
    kind: True for kind in get_args(RunEvent) if issubclass(kind, (Outcome, RunReported))
}
"""Events that speak of one attempt, and whether only the executor that has it may."""


def is_stale(attempt: int, executor_id: str | None, event: RunEvent) -> bool:
    """Whether an executor speaks of another attempt than the current one, or for an executor that was replaced."""
    by_executor = _BY_EXECUTOR.get(type(event))
    if by_executor is None:
        return False
    said: Any = event
    if said.attempt != attempt and said.attempt is not None:
        return True
    return by_executor and executor_id is not None and executor_id != said.executor_id


def attempt_used_up(status: RunStatus | None, attempt: int, event: RunEvent) -> int | None:
    """The number of an attempt that was handed out of a node which was marked by hand: its owner had not read that. It
    changes nothing; but an executor may have it, and members may be named after it. The next has another number."""
    if not isinstance(event, RunQueued | RunOpened) or event.trigger != "workflow":
        return None
    return event.attempt if status in ("SUCCESS", "SKIPPED") and event.attempt > attempt else None


_HEAD = """# The states of a run

Made from `core/waterclock/core/domain/run/states.py` by `python -m waterclock.core.domain.run.states`.
An event for which a state has no arrow is stale: it stays in the log and changes nothing.

"""


def picture() -> str:
    """A Markdown page with a Mermaid diagram and the same as a table."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for status, steps in TRANSITIONS.items():
        for kind, target in steps.items():
            tag = str(kind.__struct_config__.tag)  # type: ignore[attr-defined]
            for reached in target if isinstance(target, tuple) else (target,):
                arrows.setdefault((status or "[*]", reached), []).append(tag)
    lines = ["```mermaid", "stateDiagram-v2"]
    for (start, end), tags in arrows.items():
        if start != end:
            lines.append(f"    {start} --> {end}: {', '.join(tags)}")
    lines += [f"    {status} --> [*]" for status in sorted(TERMINAL)]
    lines.append("```")
    table = ["", "| from | event | to |", "|---|---|---|"]
    for (start, end), tags in arrows.items():
        table += [f"| {'(new)' if start == '[*]' else start} | {tag} | {end} |" for tag in tags]
    return _HEAD + "\n".join(lines + table) + "\n"


if __name__ == "__main__":
    print(picture(), end="")
