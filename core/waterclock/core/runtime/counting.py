"""Counting for Prometheus without its cost: plain numbers on the way, families made when somebody asks."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_MICROSECONDS = tuple(round(bound * 1_000_000) for bound in _BOUNDS)
_LABELS = (*map(str, _BOUNDS), "+Inf")


class Spread:
    """A histogram of seconds."""

    def __init__(self) -> None:
        self._counts = [0] * len(_LABELS)
        self._sum = 0

    def add(self, seconds: float) -> None:
        self.add_us(round(seconds * 1_000_000))

    def add_us(self, microseconds: int) -> None:
        """What clocks that disagree make negative counts as nothing."""
        self._counts[bisect_left(_MICROSECONDS, microseconds)] += 1
        if microseconds > 0:
            self._sum += microseconds

    def family(self, name: str, about: str) -> HistogramMetricFamily:
        family = HistogramMetricFamily(name, about)
        self.into(family, ())
        return family

    def into(self, family: HistogramMetricFamily, labels: tuple[str, ...]) -> None:
        buckets, total = [], 0
        for bound, count in zip(_LABELS, self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(labels, buckets=buckets, sum_value=self._sum / 1_000_000)


class Quiet(Collector):
    """A collector that describes nothing, so that several of one kind may live in one process, as in tests."""

    def describe(self) -> list[Metric]:
        return []

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Part of what this process shows, while the scope lasts."""
        REGISTRY.register(self)
        try:
            yield
        finally:
            REGISTRY.unregister(self)


def counter(name: str, about: str, label: str, counts: Mapping[str, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def gauge(name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
