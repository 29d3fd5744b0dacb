"""Which events are worth an alert. Pure: events and the time go in, alerts come out."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection
from typing import assert_never

from msgspec import Struct

from waterclock.core.domain.ids import job_of
from waterclock.core.domain.instants import MINUTE, SECOND, rfc3339
from waterclock.core.domain.system_load import SystemLoad
from waterclock.projector.alerts.alert import Alert, AlertState, Rule
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
from waterclock.proto.names import route_of

_MOST_QUEUED = 100_000
"""Queued runs that are watched for their start; the oldest are let go beyond that."""
_MOST_REMEMBERED = 10_000


class Thresholds(Struct, frozen=True, kw_only=True):
    lag_seconds: float = 60.0
    no_executor_seconds: float = 60.0
    failure_rate: float = 0.5
    """Of the runs that ended in the window; 0 turns it off."""
    failure_rate_runs: int = 20
    """So many must have ended in the window for the rate to mean something."""
    window_seconds: float = 300.0
    saturated_seconds: float = 30.0
    """How long the schedulers must have been behind for an alert, and on time for it to be over."""
    repeat_seconds: float = 3600.0
    """How long there is no second alert with the same key."""


class _QueuedRun(Struct, gc=False):
    due: Instant
    queued: Instant
    route: str
    tier: str


class AlertRules:
    """Folds `RUNS`. What must be durable is in `state`; the rest can be lost in a restart without a false alarm."""

    def __init__(self, state: AlertState, thresholds: Thresholds) -> None:
        self.state = state
        self._thresholds = thresholds
        self._queued: OrderedDict[str, _QueuedRun] = OrderedDict()
        self._window: deque[tuple[Instant, list[int]]] = deque()
        self._saturated_since: Instant | None = None
        self._saturated_last: Instant | None = None

    def on_event(self, sequence: int, event: RunEvent) -> list[Alert]:
        """One event of the log. What only the definition knows is not in the alerts yet."""
        match event:
            case RunQueued():
                route = route_of(event.queue, event.handler)
                self._queued.pop(event.run_id, None)
                self._queued[event.run_id] = _QueuedRun(event.due, event.at, route, event.tier)
                if len(self._queued) > _MOST_QUEUED:
                    self._queued.popitem(last=False)
                return []
            case RunStarted():
                return self._started(sequence, event.run_id, event.at)
            case RunSucceeded():
                return self._started(sequence, event.run_id, event.started) + self._succeeded(sequence, event)
            case RunFailed() | RunTimedOut():
                late = self._started(sequence, event.run_id, event.started)
                if event.retry_at is not None:
                    return late
                text = event.reason + (f": {event.error_message[:200]}" if event.error_message else "")
                return late + self._failed(sequence, event, text)
            case RunLost():
                if not event.dead:
                    return []
                return self._failed(sequence, event, event.reason or "its executors died too often")
            case RunsMissed():
                self._queued.pop(event.run_id, None)
                many = "1 run" if event.count == 1 else f"{event.count} runs"
                since = rfc3339(event.scheduled)
                text = f"{many} of {job_of(event.run_id)} missed from {since}: {event.reason}"
                return self._run_alert(sequence, event, "missed", text)
            case RunSnoozed() | RunReturned() | RunCancelled() | RunSkipped():
                self._queued.pop(event.run_id, None)
                return []
            case RunRequested() | RunWaiting() | RunReported() | RunCancelRequested() | RunRetryRequested():
                return []
            case OutcomeRejected() | ScheduleEnded() | SkipRequested():
                return []
            case RunClosed(timed_out=True):
                return self._failed(sequence, event, event.reason)
            case (
                RunOpened() | RunProgressed() | RunClosed() | RerunRequested() | NodeCleared() | NodeMarked()
            ):
                return []
            case BackfillRequested() | BackfillSteered() | BackfillEnded():
                return []
            case DependenciesChanged() | DependentChanged() | DependencyCompleted() | DependenciesUsed():
                return []
            case NoticesDelivered():
                return []
            case _:
                assert_never(event)

    def on_tick(self, now: Instant, served: Collection[tuple[str, str]]) -> list[Alert]:
        """What follows from the passing of time. `served`: (route, tier) that a living executor takes work from."""
        waiting: dict[tuple[str, str], list[_QueuedRun]] = defaultdict(list)
        for run in self._queued.values():
            if not self._is_overdue(run, now):
                break
            waiting[run.route, run.tier].append(run)
        found = []
        for (route, tier), runs in waiting.items():
            if (route, tier) not in served:
                queue, _, handler = route.partition("=")
                what = f"handler {handler} on queue {queue}" if handler else f"queue {queue}"
                summary = f"{len(runs)} runs wait for {what}, tier {tier}, and no executor serves it"
                found += self._alert(f"{now}", "no_executor", f"{route}.{tier}", summary, now)
        return found + self._failure_rate(now)

    def has_overdue(self, now: Instant) -> bool:
        """Whether some run has waited too long for an executor: else nobody needs to ask which executors there are."""
        oldest = next(iter(self._queued.values()), None)
        return oldest is not None and self._is_overdue(oldest, now)

    def _is_overdue(self, run: _QueuedRun, now: Instant) -> bool:
        return now - run.queued > self._thresholds.no_executor_seconds * SECOND

    def on_load(self, now: Instant, load: SystemLoad | None) -> list[Alert]:
        """What the schedulers say of themselves. None, nobody says anything, changes nothing.

        Who is slowed down to what can be done hovers about the limit: so it begins when it has lasted for a while, gaps
        included, and is over when there was nothing of it for as long.
        """
        if load is None:
            return []
        long = self._thresholds.saturated_seconds * SECOND
        if self._saturated_last is None:
            self._saturated_last = now
        if load.saturated_since is None:
            return self._not_saturated(now) if now - self._saturated_last >= long else []
        self._saturated_last = now
        since = self._saturated_since = min(
            load.saturated_since, self._saturated_since or self.state.saturated_since or load.saturated_since
        )
        if now - since < long:
            return []
        self.state.saturated_since = since
        summary = (
            f"saturated since {rfc3339(since - since % SECOND)}: {load.behind_seconds:.0f} s behind,"
            f" {load.to_drain / load.rate:.0f} s of work at {load.ended_per_second:,.0f} runs a second"
            + ("; callers are slowed down" if load.saturated else "")
        )
        return self._alert(f"{now}", "saturated", "all", summary, now)

    def on_quarantine(self, now: Instant, last_sequence: int, record: str) -> list[Alert]:
        """Something more could not be read: the stream of such records has grown up to a sequence."""
        self.state.quarantine_seen = last_sequence
        summary = f"a record could not be read and is left out: {record}; see `waterclock quarantine list`"
        return self._alert(f"{last_sequence}", "quarantine", "all", summary, now)

    def on_failing(self, now: Instant, partitions: Collection[int]) -> list[Alert]:
        """Partitions that fail again and again, by their schedulers' word."""
        return [
            alert
            for number in sorted(partitions)
            for alert in self._alert(
                f"{now}",
                "partition_failing",
                str(number),
                f"partition {number} fails again and again, and nothing of it is decided meanwhile",
                now,
            )
        ]

    def _not_saturated(self, now: Instant) -> list[Alert]:
        since = self.state.saturated_since
        self._saturated_since = self.state.saturated_since = None
        if since is None:
            return []
        self.state.last_alert.pop("saturated:all", None)
        first, last = (rfc3339(moment - moment % SECOND) for moment in (since, self._saturated_last or now))
        return [
            Alert(
                alert_id=f"saturated:all@{since}/over",
                key="saturated:all",
                rule="saturated",
                summary=f"no longer saturated; it was from {first} to {last}",
                at=now,
                resolved=True,
            )
        ]

    # -- one run ------------------------------------------------------------------------------------------

    def _started(self, sequence: int, run_id: str, started: Instant) -> list[Alert]:
        run = self._queued.pop(run_id, None)
        if run is None or started - run.due <= self._thresholds.lag_seconds * SECOND:
            return []
        job_id = job_of(run_id)
        summary = f"{run_id} started {(started - run.due) / SECOND:.0f} s late"
        return self._alert(str(sequence), "lag", job_id, summary, started, job_id, run_id)

    def _failed(
        self, sequence: int, event: RunFailed | RunTimedOut | RunLost | RunClosed, reason: str
    ) -> list[Alert]:
        self._queued.pop(event.run_id, None)
        self._count(event.at, failed=True)
        job_id = job_of(event.run_id)
        _remember(self.state.failing, job_id, event.at)
        return self._run_alert(sequence, event, "dead_letter", f"{event.run_id} failed: {reason}")

    def _succeeded(self, sequence: int, event: RunSucceeded) -> list[Alert]:
        self._count(event.at, failed=False)
        job_id = job_of(event.run_id)
        since = self.state.failing.pop(job_id, None)
        if since is None:
            return []
        for rule in ("critical_failure", "dead_letter"):
            self.state.last_alert.pop(f"{rule}:{job_id}", None)
        summary = f"{job_id} succeeds again; it had failed since {rfc3339(since - since % SECOND)}"
        return self._alert(str(sequence), "recovered", job_id, summary, event.at, job_id, event.run_id)

    # -- many runs together -----------------------------------------------------------------------

    def _count(self, at: Instant, *, failed: bool) -> None:
        minute = at - at % MINUTE
        if not self._window or self._window[-1][0] != minute:
            self._window.append((minute, [0, 0]))
        self._window[-1][1][0] += 1
        self._window[-1][1][1] += failed

    def _failure_rate(self, now: Instant) -> list[Alert]:
        while self._window and now - self._window[0][0] > self._thresholds.window_seconds * SECOND + MINUTE:
            self._window.popleft()
        ended = sum(counts[0] for _, counts in self._window)
        failed = sum(counts[1] for _, counts in self._window)
        limit = self._thresholds.failure_rate
        if not limit or ended < self._thresholds.failure_rate_runs or failed / ended < limit:
            return []
        summary = f"{failed} of the last {ended} runs failed ({failed / ended:.0%})"
        return self._alert(f"{now}", "failure_rate", "all", summary, now)

    # -- alerts -------------------------------------------------------------------------------------------

    def _run_alert(self, sequence: int, event: RunEvent, rule: Rule, summary: str) -> list[Alert]:
        job_id = job_of(event.run_id)
        return self._alert(str(sequence), rule, job_id, summary, event.at, job_id, event.run_id)

    def _alert(
        self,
        origin: str,
        rule: Rule,
        about: str,
        summary: str,
        at: Instant,
        job_id: str | None = None,
        run_id: str | None = None,
    ) -> list[Alert]:
        """Nothing if there was one with the same key a short while ago."""
        key = f"{rule}:{about}"
        last = self.state.last_alert.get(key)
        if rule != "recovered":
            if last is not None and at - last < self._thresholds.repeat_seconds * SECOND:
                return []
            _remember(self.state.last_alert, key, at)
        return [
            Alert(
                alert_id=f"{key}@{origin}",
                key=key,
                rule=rule,
                summary=summary,
                at=at,
                job_id=job_id,
                run_id=run_id,
            )
        ]


def _remember(where: dict[str, Instant], key: str, at: Instant) -> None:
    where.pop(key, None)
    where[key] = at
    if len(where) > _MOST_REMEMBERED:
        del where[next(iter(where))]
