"""What the projector counts, as Prometheus reads it. Counted once for each batch."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from waterclock.core.domain.instants import SECOND
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.metrics import Histogram, ScopedCollector, gauge
from waterclock.projector.write.store import Move


class Tally(ScopedCollector):
    def __init__(self) -> None:
        self._events = 0
        self._batches = Histogram()
        self._lag: Counter[str] = Counter()
        self._waiting = 0
        self._at = 0

    def folded(self, events: int, seconds: float, moves: Sequence[Move], waiting: int) -> None:
        self._events += events
        self._batches.add(seconds)
        self._waiting = waiting
        now = now_us()
        for move in moves:
            if move.event_time is not None:
                self._lag[move.stream] = max(0, now - move.event_time)
        self._at = now

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("waterclock_projection_events", "Events folded in.", value=self._events)
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


TALLY = Tally()
REGISTRY.register(TALLY)
