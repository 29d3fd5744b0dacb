"""What the executor counts, as Prometheus reads it.

Counting happens on every attempt, so it is plain arithmetic here; the text is made when somebody asks for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from waterclock.core.runtime.metrics import Histogram, ScopedCollector, counter, gauge
from waterclock.executor.attempt.outcome import OutcomeEvent
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

_KINDS = {
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
_NOT_STARTED = (OutcomeRejected, RunsMissed)


class Tally(ScopedCollector):
    def __init__(self, *, slots: Callable[[], tuple[int, int]], in_hand: Callable[[], int]) -> None:
        self._slots = slots
        self._in_hand = in_hand
        self._outcomes: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._claims: Counter[str] = Counter()
        self._retries = 0
        self._dead = 0
        self._lag = Histogram()
        self._late = Histogram()
        self._decide, self._queue, self._start = Histogram(), Histogram(), Histogram()
        self._took = Histogram()

    def ended(
        self, item: WorkItem, event: OutcomeEvent | OutcomeRejected | RunsMissed, pulled: Instant
    ) -> None:
        kind = _KINDS[type(event)]
        self._outcomes[kind] += 1
        match event:
            case RunSucceeded() | RunCancelled() | RunsMissed():
                self._ended[kind] += 1
            case RunFailed() | RunTimedOut():
                if event.retry_at is None:
                    self._dead += 1
                    self._ended[kind] += 1
                else:
                    self._retries += 1
            case _:
                pass
        if isinstance(event, _NOT_STARTED) or (started := event.started) is None:
            return
        queued, due = item.queued, item.due
        self._took.add_us(event.at - started)
        self._lag.add_us(started - due)
        if item.attempt == 1:
            self._late.add_us(started - item.scheduled)
        self._decide.add_us(queued - due)
        self._queue.add_us(pulled - queued)
        self._start.add_us(started - pulled)

    def claimed(self, verdict: str) -> None:
        self._claims[verdict] += 1

    def collect(self) -> Iterator[Metric]:
        yield counter(
            "waterclock_executor_outcomes", "Attempts that ended, by how.", "outcome", self._outcomes
        )
        yield counter(
            "waterclock_runs_ended", "Runs that ended with an attempt, by how.", "outcome", self._ended
        )
        yield CounterMetricFamily(
            "waterclock_retries", "Attempts to be followed by another.", value=self._retries
        )
        yield CounterMetricFamily("waterclock_dead_letters", "Runs out of attempts.", value=self._dead)
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
            value=self._in_hand(),
        )
        yield self._late.family(
            "waterclock_start_lag_seconds", "From when a run was scheduled to when it first started."
        )
        yield self._lag.family(
            "waterclock_executor_start_lag_seconds", "From when an attempt was due to when it started."
        )
        parts = HistogramMetricFamily(
            "waterclock_start_lag_part_seconds",
            "Parts of the start lag: decide (due to queued), queue (to pulled), start (to started).",
            labels=["part"],
        )
        for part, spread in (("decide", self._decide), ("queue", self._queue), ("start", self._start)):
            spread.into(parts, (part,))
        yield parts
        yield self._took.family("waterclock_executor_attempt_seconds", "From start to end of an attempt.")
