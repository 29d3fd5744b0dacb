"""The executor's Prometheus metrics.

Counting happens on every attempt, so it is plain arithmetic; the metric families are made when they are scraped.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import sub
from typing import assert_never

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from waterclock.core.runtime.metrics import Histogram, ScopedCollector, counter, gauge
from waterclock.executor.attempt_record import FinalEvent
from waterclock.executor.in_flight import RunningAttempt
from waterclock.proto.events import (
    Instant,
    OutcomeRejected,
    RunCancelled,
    RunFailed,
    RunReturned,
    RunsMissed,
    RunSnoozed,
    RunSucceeded,
    RunTimedOut,
)
from waterclock.proto.work import WorkItem

_OUTCOME_NAMES = {
    kind: str(kind.__struct_config__.tag)
    for kind in (
        RunSucceeded,
        RunFailed,
        RunTimedOut,
        RunSnoozed,
        RunReturned,
        RunCancelled,
        RunsMissed,
        OutcomeRejected,
    )
}
_WITHOUT_START = (OutcomeRejected, RunsMissed)


class ExecutorMetrics(ScopedCollector):
    def __init__(self, *, slots: Callable[[], tuple[int, int]], in_flight: Callable[[], int]) -> None:
        self._slots = slots
        self._in_flight = in_flight
        self._outcomes: Counter[str] = Counter()
        self._runs_ended: Counter[str] = Counter()
        self._claims: Counter[str] = Counter()
        self._retries = 0
        self._dead_letters = 0
        self._attempt_lag = Histogram()
        self._start_lag = Histogram()
        self._decide_lag, self._queue_lag, self._pull_lag = Histogram(), Histogram(), Histogram()
        self._duration = Histogram()

    def count_outcome(self, item: WorkItem, event: FinalEvent, pulled: Instant) -> None:
        kind = _OUTCOME_NAMES[type(event)]
        self._outcomes[kind] += 1
        match event:
            case RunSucceeded() | RunCancelled() | RunsMissed():
                self._runs_ended[kind] += 1
            case RunFailed() | RunTimedOut():
                if event.retry_at is None:
                    self._dead_letters += 1
                    self._runs_ended[kind] += 1
                else:
                    self._retries += 1
            case RunSnoozed() | RunReturned() | OutcomeRejected():
                pass
            case _:
                assert_never(event)
        if isinstance(event, _WITHOUT_START) or (started := event.started) is None:
            return
        queued, due = item.queued, item.due
        self._duration.add_us(event.at - started)
        self._attempt_lag.add_us(started - due)
        if item.attempt == 1:
            self._start_lag.add_us(started - item.scheduled)
        self._decide_lag.add_us(queued - due)
        self._queue_lag.add_us(pulled - queued)
        self._pull_lag.add_us(started - pulled)

    def count_outcomes(self, ended: Sequence[RunningAttempt], pulled: Instant) -> None:
        """Of one delivery. Mostly all of them are first attempts that went well, and their times are alike."""
        if len(ended) == 1:
            self._count_each(ended, pulled)
            return
        started, at, due, scheduled, queued = [], [], [], [], []
        others = []
        for running in ended:
            item, event = running.item, running.outcome
            if type(event) is not RunSucceeded or item.attempt != 1:
                others.append(running)
                continue
            started.append(event.started)
            at.append(event.at)
            due.append(item.due)
            scheduled.append(item.scheduled)
            queued.append(item.queued)
        if others:
            self._count_each(others, pulled)
        if not started:
            return
        kind = _OUTCOME_NAMES[RunSucceeded]
        self._outcomes[kind] += len(started)
        self._runs_ended[kind] += len(started)
        self._duration.add_all([*map(sub, at, started)])
        start_lags = [*map(sub, started, scheduled)]
        self._start_lag.add_all(start_lags)
        self._attempt_lag.add_all(start_lags if due == scheduled else [*map(sub, started, due)])
        self._decide_lag.add_all([*map(sub, queued, due)])
        self._queue_lag.add_all([pulled - each for each in queued])
        self._pull_lag.add_all([each - pulled for each in started])

    def _count_each(self, ended: Sequence[RunningAttempt], pulled: Instant) -> None:
        for running in ended:
            assert running.outcome is not None
            self.count_outcome(running.item, running.outcome, pulled)

    def count_claim(self, verdict: str) -> None:
        self._claims[verdict] += 1

    def collect(self) -> Iterator[Metric]:
        yield counter(
            "waterclock_executor_outcomes", "Attempts that ended, by how.", "outcome", self._outcomes
        )
        yield counter(
            "waterclock_runs_ended", "Runs that ended with an attempt, by how.", "outcome", self._runs_ended
        )
        yield CounterMetricFamily(
            "waterclock_retries", "Attempts to be followed by another.", value=self._retries
        )
        yield CounterMetricFamily(
            "waterclock_dead_letters", "Runs out of attempts.", value=self._dead_letters
        )
        yield counter(
            "waterclock_executor_claims", "Redeliveries asked about, by the answer.", "verdict", self._claims
        )
        total, used = self._slots()
        yield gauge(
            "waterclock_executor_slots",
            "Slots there are, and slots in use.",
            "state",
            {"total": total, "used": used},
        )
        yield GaugeMetricFamily(
            "waterclock_executor_in_hand",
            "Attempts delivered and not yet acknowledged.",
            value=self._in_flight(),
        )
        yield self._start_lag.family(
            "waterclock_start_lag_seconds", "From when a run was scheduled to when it first started."
        )
        yield self._attempt_lag.family(
            "waterclock_executor_start_lag_seconds", "From when an attempt was due to when it started."
        )
        parts = HistogramMetricFamily(
            "waterclock_start_lag_part_seconds",
            "Parts of the start lag: decide (due to queued), queue (to pulled), start (to started).",
            labels=["part"],
        )
        for part, histogram in (
            ("decide", self._decide_lag),
            ("queue", self._queue_lag),
            ("start", self._pull_lag),
        ):
            histogram.into(parts, (part,))
        yield parts
        yield self._duration.family("waterclock_executor_attempt_seconds", "From start to end of an attempt.")
