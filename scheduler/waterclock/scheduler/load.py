"""How far behind a scheduler is: what is to drain, how fast it drains, since when that takes too long."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.due.backlog import Backlog
from waterclock.core.domain.partition.room import PARTS
from waterclock.core.domain.partition.state import Run
from waterclock.core.runtime.clock import Clock
from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.heartbeats import DRAIN_LIMIT_SECONDS, MOST_CROWDED, SchedulerLoad, drain_seconds
from waterclock.scheduler.credit import Credit

_UNTRIED = 1_000.0
"""Runs a second that a scheduler is believed to manage before it has had a backlog to show it."""
_RELIEVED = DRAIN_LIMIT_SECONDS / 2
"""Below this it is no longer saturated."""
_MOST_WAITING = 200_000
"""So much may wait for the slots of slow work: memory is not without end. Beyond that, whoever has more than an equal
part of it gets no more in."""
_MOST_QUEUES = 100


class PartitionLoad(Struct, frozen=True):
    backlog: Backlog
    unread: int
    runs: Mapping[str, Run] = {}
    not_in_memory: int = 0
    """How many are due that only the timing index has."""
    behind_since: Instant = 0
    """If there are any: when the first of them was due."""


def due_by_queue(partitions: Iterable[PartitionLoad]) -> dict[str, int]:
    """How much waits for room in each work queue. Of many queues the fullest, of very many the fullest of some."""
    found: Counter[str] = Counter()
    for partition in partitions:
        for route, priority, count in partition.backlog.sizes(_MOST_QUEUES):
            if route != PARTS:
                found[_queue(route, priority)] += count
    return dict(found.most_common(_MOST_QUEUES))


def packed_by_queue(partitions: Iterable[PartitionLoad]) -> dict[str, int]:
    """How many more runs than messages are in each work queue: a parcel is one message."""
    found: Counter[str] = Counter()
    for partition in partitions:
        travel = [run for run in partition.runs.values() if run.parcel and run.has_work]
        sizes = Counter([run.parcel for run in travel])
        lines = {run.parcel: (run.route, run.priority, run.exact) for run in travel}
        for parcel, size in sizes.items():
            if size > 1:
                found[_queue(*lines[parcel])] += size - 1
    return dict(found.most_common(_MOST_QUEUES))


def lines_in_use(partitions: Iterable[PartitionLoad]) -> set[str]:
    """The consumers of all that is queued or running."""
    used = {
        (run.route, run.priority, run.exact)
        for partition in partitions
        for run in partition.runs.values()
        if run.route and run.has_work
    }
    return {_queue(*line) for line in used}


def unserved_by_queue(partitions: Iterable[PartitionLoad], served: Collection[str]) -> dict[str, int]:
    """How many runs are queued in each work queue that nobody serves. Only to be asked if there are some."""
    found: Counter[str] = Counter()
    for partition in partitions:
        found.update(
            _queue(run.route, run.priority, run.exact)
            for run in partition.runs.values()
            if run.has_work and run.route and run.route not in served
        )
    return dict(found.most_common(_MOST_QUEUES))


def _queue(route: str, priority: int, exact: bool = True) -> str:
    where, _, tier = route.rpartition("/")
    return names.work_consumer(where, tier, names.line_of(priority, exact))


class LoadMeter:
    def __init__(self, credit: Credit, clock: Clock) -> None:
        self._credit = credit
        self._clock = clock
        self._saturated_since: Instant | None = None

    def measure(self, partitions: Iterable[PartitionLoad]) -> SchedulerLoad:
        """To be called a few times a second."""
        self._credit.measure()
        now = self._clock.now_us()
        counted = unread = 0
        waiting: Counter[str] = Counter()
        """By namespace, for the slots of slow work."""
        oldest = now
        for partition in partitions:
            unread += partition.unread
            counted += partition.not_in_memory
            if partition.not_in_memory:
                oldest = min(oldest, partition.behind_since)
            for (namespace, line), count in partition.backlog.counts.items():
                if self._is_counted(line):
                    counted += count
                else:
                    waiting[namespace] += count
            oldest = min(oldest, partition.backlog.oldest_on(self._is_counted) or now)
        rate = self._ended_per_second(behind=counted > 0)
        drain = drain_seconds(unread + counted, rate)
        if drain > DRAIN_LIMIT_SECONDS:
            self._saturated_since = self._saturated_since or now
        elif drain < _RELIEVED:
            self._saturated_since = None
        self._credit.saturated = self._saturated_since is not None
        return SchedulerLoad(
            to_drain=unread + counted,
            ended_per_second=round(rate, 1),
            behind_seconds=round((now - oldest) / SECOND, 3),
            saturated_since=self._saturated_since,
            crowded=_crowded(waiting),
        )

    def _is_counted(self, line: str) -> bool:
        """Whether what waits there waits for the system, and not for the slots of slow work or for executors."""
        return not self._credit.route(line).waits_for_slots

    def _ended_per_second(self, *, behind: bool) -> float:
        routes = self._credit.routes.values()
        if behind:
            return max(sum(route.rate for route in routes), 1.0)
        return max(sum(route.best for route in routes), _UNTRIED)


def _crowded(waiting: Counter[str]) -> dict[str, int]:
    if waiting.total() <= _MOST_WAITING:
        return {}
    part = _MOST_WAITING / len(waiting)
    return {name: count for name, count in waiting.most_common(MOST_CROWDED) if count > part}
