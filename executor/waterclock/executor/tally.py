"""What the executor counts, as Prometheus reads it.

Counting happens on every attempt, so it is plain arithmetic here; the text is made when somebody asks for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from waterclock.core.runtime.counting import Quiet, Spread, counter, gauge
from waterclock.executor.classify import OutcomeEvent
from waterclock.proto.events import (
    Instant,
    OutcomeRejected,
    RunCancelled,
    RunFailed,
    RunsMissed,
    RunSucceeded,
    RunTimedOut,
)
from waterclock.proto.work import WorkItem

_SECOND = 1_000_000


class Tally(Quiet):
    def __init__(self, *, slots: Callable[[], tuple[int, int]], in_hand: Callable[[], int]) -> None:
        self._slots = slots
        self._in_hand = in_hand
        self._outcomes: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._claims: Counter[str] = Counter()
        self._retries = 0
        self._dead = 0
        self._lag = Spread()
        self._late = Spread()
        self._parts = {"decide": Spread(), "queue": Spread(), "start": Spread()}
        self._took = Spread()

    def ended(
        self, item: WorkItem, event: OutcomeEvent | OutcomeRejected | RunsMissed, pulled: Instant
    ) -> None:
        kind = str(event.__struct_config__.tag)
        self._outcomes[kind] += 1
        match event:
            case RunFailed() | RunTimedOut():
                if event.retry_at is None:
                    self._dead += 1
                    self._ended[kind] += 1
                else:
                    self._retries += 1
            case RunSucceeded() | RunCancelled() | RunsMissed():
                self._ended[kind] += 1
            case _:
                pass
        if isinstance(event, OutcomeRejected | RunsMissed) or event.started is None:
            return
        self._took.add((event.at - event.started) / _SECOND)
        self._lag.add(max(0, event.started - item.due) / _SECOND)
        if item.attempt == 1:
            self._late.add(max(0, event.started - item.scheduled) / _SECOND)
        self._parts["decide"].add(max(0, item.queued - item.due) / _SECOND)
        self._parts["queue"].add(max(0, pulled - item.queued) / _SECOND)
        self._parts["start"].add(max(0, event.started - pulled) / _SECOND)

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
        for part, spread in self._parts.items():
            spread.into(parts, (part,))
        yield parts
        yield self._took.family("waterclock_executor_attempt_seconds", "From start to end of an attempt.")
