"""The projector's metrics for Prometheus: of the folding, counted once for each batch, and of the alerts."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from waterclock.core.domain.instants import SECOND
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.metrics import Histogram, ScopedCollector, counter, gauge
from waterclock.projector.read.positions import PositionMove


class ProjectorMetrics(ScopedCollector):
    def __init__(self) -> None:
        self.events = 0
        """Folded in."""
        self._batches = Histogram()
        self._lag: Counter[str] = Counter()
        self._waiting = 0
        self._at = 0

    def batch_written(self, events: int, seconds: float, moves: Sequence[PositionMove], waiting: int) -> None:
        self.events += events
        self._batches.add(seconds)
        self._waiting = waiting
        now = now_us()
        for move in moves:
            if move.event_time is not None:
                self._lag[move.stream] = max(0, now - move.event_time)
        self._at = now

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("waterclock_projection_events", "Events folded in.", value=self.events)
        yield self._batches.family("waterclock_projection_batch_seconds", "Folding and writing one batch.")
        yield GaugeMetricFamily(
            "waterclock_projection_waiting", "Events read and not folded in yet.", value=self._waiting
        )
        yield GaugeMetricFamily(
            "waterclock_projection_batch_timestamp_seconds",
            "When the last batch was written.",
            value=self._at / SECOND,
        )
        yield gauge(
            "waterclock_projection_lag_seconds",
            "From when the last message of a batch was stored to when it was in the tables.",
            "stream",
            {stream: lag / SECOND for stream, lag in self._lag.items()},
        )


class AlertMetrics(ScopedCollector):
    def __init__(self) -> None:
        self.results: Counter[str] = Counter(delivered=0, failed=0, given_up=0, silenced=0)
        self.waiting = 0

    def collect(self) -> Iterator[Metric]:
        yield counter("waterclock_alerts", "Calls to the webhook, by result.", "result", self.results)
        yield GaugeMetricFamily("waterclock_alerts_waiting", "Alerts to be delivered.", value=self.waiting)


METRICS = ProjectorMetrics()
REGISTRY.register(METRICS)
