"""Where the time of a run went: its life cut into stretches, each with a name and its share."""

from collections.abc import Sequence
from typing import assert_never

from waterclock.core.domain.explain import wording
from waterclock.core.domain.explain.explanation import Delay, DelayKind
from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
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

_WORDS: dict[DelayKind, str] = {
    "jitter": "moved on purpose, by jitter",
    "scheduler": "due, until its scheduler had decided",
    "waiting": "had to wait",
    "queue": "queued, until an executor took it",
    "execution": "running",
    "backoff": "between attempts, by the retry policy",
    "snooze": "put off by its handler",
    "lost": "with an executor that died, until that was noticed",
    "ended": "had ended, until somebody had it tried again",
}


class _Clock:
    """Cuts time into stretches as events come by."""

    def __init__(self) -> None:
        self.stretches: list[tuple[DelayKind, Instant, Instant, int, str]] = []
        self._since: Instant | None = None
        self._kind: DelayKind | None = None
        self._then: tuple[Instant, DelayKind] | None = None
        self._what = ""
        self._attempt = 0

    def begin(self, kind: DelayKind, at: Instant) -> None:
        if self._since is None:
            self._since, self._kind = at, kind

    def turn(
        self,
        at: Instant,
        kind: DelayKind | None,
        *,
        attempt: int | None = None,
        what: str = "",
        then: tuple[Instant, DelayKind] | None = None,
    ) -> None:
        """What went on until now ends; `kind` begins, and is followed by another at a set time."""
        self._close(at)
        self._since, self._kind, self._what, self._then = at, kind, what, then
        self._attempt = self._attempt if attempt is None else attempt

    def explain(self, what: str) -> None:
        """In place of the usual words for what goes on."""
        self._what = what or self._what

    def rename(self, kind: DelayKind) -> None:
        self._kind = kind

    @property
    def kind(self) -> DelayKind | None:
        return self._kind

    def _close(self, at: Instant) -> None:
        if self._since is None or self._kind is None:
            return
        if self._then is not None and self._since < self._then[0] < at:
            changed, kind = self._then
            self._add(self._kind, self._since, changed)
            self._add(kind, changed, at)
        else:
            self._add(self._kind, self._since, at)

    def _add(self, kind: DelayKind, start: Instant, end: Instant) -> None:
        if end > start:
            self.stretches.append((kind, start, end, self._attempt, self._what or _WORDS[kind]))


def delays(events: Sequence[RunEvent], now: Instant) -> tuple[Delay, ...]:
    """From when the run was scheduled, or asked for, to its end or to now."""
    clock = _Clock()
    for event in events:
        _take(clock, event)
    if clock.kind != "ended":
        clock.turn(now, None)
    total = sum(end - start for kind, start, end, _, _ in clock.stretches if kind != "ended")
    return tuple(
        Delay(
            kind=kind,
            start=start,
            end=end,
            share=(end - start) / total if total and kind != "ended" else 0.0,
            attempt=attempt,
            what=what,
        )
        for kind, start, end, attempt, what in clock.stretches
    )


def _take(clock: _Clock, event: RunEvent) -> None:
    match event:
        case RunRequested():
            clock.begin("scheduler", event.at)
        case RunRetryRequested() | RerunRequested() | NodeCleared():
            clock.turn(event.at, "scheduler")
        case RunWaiting():
            _due(clock, event)
            clock.turn(event.at, "waiting", what=event.reason)
        case RunQueued():
            _due(clock, event)
            if clock.kind == "scheduler":
                clock.explain(wording.behind(event))
            clock.turn(event.at, "queue", attempt=event.attempt)
        case RunOpened():
            _due(clock, event)
            clock.turn(event.at, "execution", attempt=event.attempt, what="its parts were running")
        case RunSkipped():
            _due(clock, event)
            clock.turn(event.at, None)
        case RunsMissed():
            clock.begin("scheduler", event.scheduled)
            if clock.kind == "queue" and event.attempt is not None and not event.executor_id:
                clock.explain("queued, and no executor took it")
            clock.turn(event.at, None)
        case RunStarted():
            clock.turn(event.at, "execution", attempt=event.attempt)
        case RunSucceeded():
            _ran(clock, event.started, event.attempt)
            clock.turn(event.at, None)
        case RunFailed() | RunTimedOut():
            _ran(clock, event.started, event.attempt)
            if event.retry_at is None:
                clock.turn(event.at, "ended")
            else:
                clock.turn(event.at, "backoff", then=(event.retry_at, "scheduler"))
        case RunSnoozed():
            _ran(clock, event.started, event.attempt)
            clock.turn(event.at, "snooze", then=(event.until, "scheduler"))
        case RunReturned():
            _ran(clock, event.started, event.attempt)
            clock.turn(event.at, "scheduler")
        case RunLost():
            clock.rename("lost")
            clock.turn(event.at, None if event.dead else "queue", attempt=event.attempt)
        case RunCancelled():
            if event.started is not None:
                _ran(clock, event.started, event.attempt)
            clock.turn(event.at, None)
        case RunClosed():
            clock.turn(event.at, None)
        case (
            RunCancelRequested()
            | SkipRequested()
            | BackfillRequested()
            | BackfillSteered()
            | BackfillEnded()
            | RunProgressed()
            | RunReported()
            | NodeMarked()
            | DependenciesChanged()
            | DependentChanged()
            | DependencyCompleted()
            | DependenciesUsed()
            | NoticesDelivered()
            | OutcomeRejected()
            | ScheduleEnded()
        ):
            pass  # nothing begins or ends with it
        case _:
            assert_never(event)


def _due(clock: _Clock, event: RunWaiting | RunQueued | RunOpened | RunSkipped) -> None:
    """The first decision: the life began when the run was scheduled. A part is due when its turn has come."""
    if clock.kind is None and not clock.stretches:
        if event.trigger in ("workflow", "fan_out"):
            clock.turn(event.scheduled, "waiting", what="other parts came before it")
        else:
            clock.begin("jitter", event.scheduled)
        clock.turn(max(event.scheduled, event.due), "scheduler")


def _ran(clock: _Clock, started: Instant, attempt: int) -> None:
    """An outcome tells when its attempt started; a short one has no event of its own for that."""
    if clock.kind != "execution":
        clock.turn(started, "execution", attempt=attempt)
