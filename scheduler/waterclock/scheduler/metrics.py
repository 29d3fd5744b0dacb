"""What the scheduler counts, as Prometheus reads it. Counted once for each frame, not for each run."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from waterclock.core.domain.instants import SECOND
from waterclock.core.runtime.metrics import Histogram, ScopedCollector, counter, gauge
from waterclock.proto.events import RunEvent, RunQueued
from waterclock.proto.heartbeats import PartitionStatus, SchedulerLoad, drain_seconds

Statuses = Callable[[], Sequence[PartitionStatus]]
Load = Callable[[], SchedulerLoad]


class SchedulerMetrics(ScopedCollector):
    def __init__(self) -> None:
        self._decisions: Counter[type[RunEvent]] = Counter()
        self._frames = 0
        self._given_up: Counter[str] = Counter()
        self._lag = Histogram()
        self._passes = Histogram()
        self._takeovers = Histogram()
        self._statuses: Statuses = tuple
        self._load: Load = SchedulerLoad

    def watch(self, statuses: Statuses, load: Load) -> None:
        """Where to ask for the partitions this scheduler owns, and for how far it is behind over all of them."""
        self._statuses = statuses
        self._load = load

    def decided(self, events: Sequence[RunEvent]) -> None:
        """One frame was written."""
        self._frames += 1
        self._decisions.update(map(type, events))
        first = next((event for event in events if type(event) is RunQueued), None)
        if first is not None:
            self._lag.add(max(0, first.at - first.due) / SECOND)

    def passed(self, seconds: float) -> None:
        self._passes.add(seconds)

    def took_over(self, seconds: float) -> None:
        self._takeovers.add(seconds)

    def gave_up(self, why: str) -> None:
        self._given_up[why] += 1

    def collect(self) -> Iterator[Metric]:
        named = {str(kind.__struct_config__.tag): count for kind, count in self._decisions.items()}
        yield counter("waterclock_scheduler_events", "Events decided, by kind.", "event", named)
        yield CounterMetricFamily("waterclock_scheduler_frames", "Frames written.", value=self._frames)
        yield counter(
            "waterclock_scheduler_partitions_given_up",
            "Partitions given up without being told to, by reason.",
            "reason",
            self._given_up,
        )
        yield self._lag.family(
            "waterclock_scheduler_decision_lag_seconds",
            "From when a run was due to when it was queued; the first one of each frame.",
        )
        yield self._passes.family("waterclock_scheduler_pass_seconds", "One pass over a partition.")
        yield self._takeovers.family("waterclock_scheduler_takeover_seconds", "Rebuilding a partition.")
        held = {str(status.partition): status for status in self._statuses()}
        for name, about, field in (
            ("active_runs", "Runs of a partition that have not ended.", "active_runs"),
            ("armed", "Schedules of a partition that are near.", "armed"),
            ("lag_seconds", "How far the owner of a partition is behind.", "lag_seconds"),
            ("backlog", "Fires of a partition that are due and not yet decided.", "backlog"),
            ("unread", "Definitions of a partition that are in the log and not read.", "unread"),
        ):
            values = {number: float(getattr(status, field)) for number, status in held.items()}
            yield gauge(f"waterclock_scheduler_partition_{name}", about, "partition", values)
        load = self._load()
        drain = drain_seconds(load.to_drain, load.ended_per_second)
        yield GaugeMetricFamily(
            "waterclock_scheduler_drain_seconds", "How long it takes to be on time again.", value=drain
        )
        yield GaugeMetricFamily(
            "waterclock_scheduler_saturated",
            "1 while that is more than callers are let in for.",
            value=float(load.saturated_since is not None),
        )
