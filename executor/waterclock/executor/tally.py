"""What the executor counts, as Prometheus reads it.

Counting happens on every attempt, so it is plain arithmetic here; the text is made when somebody asks for it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from prometheus_client import REGISTRY
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from waterclock.executor.classify import OutcomeEvent
from waterclock.proto.events import OutcomeRejected
from waterclock.proto.work import WorkItem

_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_SECOND = 1_000_000


class Spread:
    """A histogram."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def family(self, name: str, about: str) -> HistogramMetricFamily:
        buckets, total = [], 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return HistogramMetricFamily(name, about, buckets=buckets, sum_value=self._sum)


class Tally(Collector):
    def __init__(self, *, slots: Callable[[], tuple[int, int]], in_hand: Callable[[], int]) -> None:
        self._slots = slots
        self._in_hand = in_hand
        self._outcomes: Counter[str] = Counter()
        self._claims: Counter[str] = Counter()
        self._lag = Spread()
        self._took = Spread()

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Part of what this process shows, while the scope lasts."""
        REGISTRY.register(self)
        try:
            yield
        finally:
            REGISTRY.unregister(self)

    def ended(self, item: WorkItem, event: OutcomeEvent | OutcomeRejected) -> None:
        self._outcomes[str(event.__struct_config__.tag)] += 1
        if not isinstance(event, OutcomeRejected) and event.started is not None:
            self._lag.add(max(0, event.started - item.due) / _SECOND)
            self._took.add((event.at - event.started) / _SECOND)

    def claimed(self, verdict: str) -> None:
        self._claims[verdict] += 1

    def describe(self) -> list[Metric]:
        """Nothing, so that several executors may live in one process, as in tests."""
        return []

    def collect(self) -> Iterator[Metric]:
        outcomes = CounterMetricFamily(
            "waterclock_executor_outcomes", "Attempts that ended, by how.", labels=["outcome"]
        )
        for name, count in self._outcomes.items():
            outcomes.add_metric([name], count)
        claims = CounterMetricFamily(
            "waterclock_executor_claims", "Redeliveries asked about, by the answer.", labels=["verdict"]
        )
        for name, count in self._claims.items():
            claims.add_metric([name], count)
        total, used = self._slots()
        slots = GaugeMetricFamily(
            "waterclock_executor_slots", "Slots there are, and slots in use.", labels=["state"]
        )
        slots.add_metric(["total"], total)
        slots.add_metric(["used"], used)
        yield outcomes
        yield claims
        yield slots
        yield GaugeMetricFamily(
            "waterclock_executor_in_hand",
            "Attempts delivered and not yet acknowledged.",
            value=self._in_hand(),
        )
        yield self._lag.family(
            "waterclock_executor_start_lag_seconds", "From when an attempt was due to when it started."
        )
        yield self._took.family("waterclock_executor_attempt_seconds", "From start to end of an attempt.")
