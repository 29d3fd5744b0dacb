"""Metrics of a component: cheap counting, and the endpoint that Prometheus reads.

On a hot path counting is adding to plain numbers; a collector makes Prometheus' families of them when it is read.
Modules off the hot path may declare metrics with `prometheus_client` as usual.
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from waterclock.core.runtime.jetstream_counters import TRAFFIC

_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_MICROSECONDS = tuple(round(bound * 1_000_000) for bound in _BOUNDS)
_LABELS = (*map(str, _BOUNDS), "+Inf")


class Histogram:
    """Durations in seconds, counted without Prometheus' cost."""

    def __init__(self) -> None:
        self._counts = [0] * len(_LABELS)
        self._sum = 0

    def add(self, seconds: float) -> None:
        self.add_us(round(seconds * 1_000_000))

    def add_us(self, microseconds: int) -> None:
        """A negative duration, from clocks that disagree, counts as zero."""
        self._counts[bisect_left(_MICROSECONDS, microseconds)] += 1
        if microseconds > 0:
            self._sum += microseconds

    def add_all(self, microseconds: Sequence[int]) -> None:
        """Several that are much alike, at least one."""
        low, high = min(microseconds), max(microseconds)
        bucket = bisect_left(_MICROSECONDS, low)
        if low <= 0 or bisect_left(_MICROSECONDS, high) != bucket:
            for each in microseconds:
                self.add_us(each)
        else:
            self._counts[bucket] += len(microseconds)
            self._sum += sum(microseconds)

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


class ScopedCollector(Collector):
    """Metrics of something that starts and ends. Several of one kind may exist in one process, as in tests."""

    def describe(self) -> list[Metric]:
        return []  # else the registry would refuse a second one

    @contextmanager
    def registered(self) -> Iterator[None]:
        """Part of the process's metrics while the scope lasts."""
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


_REQUEST_TIMEOUT = 5.0
_REQUEST_LIMIT = 16 * 1024


class _LogTraffic(ScopedCollector):
    """Messages between this process and JetStream."""

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "waterclock_log_published", "Messages acknowledged by a stream.", value=TRAFFIC.published
        )
        yield CounterMetricFamily("waterclock_work_published", "Work messages sent.", value=TRAFFIC.work)
        yield CounterMetricFamily(
            "waterclock_log_publish_repeats", "Publishes whose answer was lost.", value=TRAFFIC.repeated
        )
        yield counter(
            "waterclock_log_publish_refusals",
            "Publishes a stream refused: comparisons lost, duplicates rejected.",
            "reason",
            TRAFFIC.refused,
        )
        yield counter("waterclock_log_pulled", "Messages taken from a stream.", "stream", TRAFFIC.pulled)


REGISTRY.register(_LogTraffic())


def render() -> tuple[bytes, str]:
    """The registry as text, and the text's content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST


@asynccontextmanager
async def serving_metrics(host: str, port: int) -> AsyncIterator[int]:
    """Answer `GET /metrics` while the scope lasts; yields the port, which is a free one if `port` is 0."""
    server = await asyncio.start_server(_answer, host, port, limit=_REQUEST_LIMIT)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT):
            request = await reader.readuntil(b"\r\n\r\n")
            writer.write(_response(request))
            await writer.drain()
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _response(request: bytes) -> bytes:
    status, (body, content_type) = "200 OK", (b"", "text/plain")
    match request.split(b" ", 2)[:2]:
        case [b"GET", b"/metrics"]:
            body, content_type = render()
        case [b"GET", b"/healthz"]:
            body = b"ok\n"
        case _:
            status = "404 Not Found"
    head = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
