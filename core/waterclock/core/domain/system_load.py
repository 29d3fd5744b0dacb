"""How far behind the whole system is: the schedulers' heartbeats, summed up."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from waterclock.core.domain.instants import SECOND
from waterclock.proto.events import Instant
from waterclock.proto.heartbeats import DRAIN_LIMIT_SECONDS, SchedulerHeartbeat, drain_seconds

_SILENT = 5 * SECOND
"""Who has said nothing for so long while others did is not there any more, whatever it said."""
_INTAKE = 5_000.0
"""Definitions a second that any scheduler is taken to read; also what it is taken to do as long as it has measured
nothing."""


class SystemLoad(Struct, frozen=True, kw_only=True):
    to_drain: int = 0
    """Definitions unread, and fires due and not decided."""
    unread: int = 0
    backlog: int = 0
    waits_since: Instant | None = None
    """When the first of what is due and not decided was due, whatever it waits for."""
    ended_per_second: float = 0.0
    behind_seconds: float = 0.0
    """The age of the oldest fire that is due and not decided."""
    saturated_since: Instant | None = None
    crowded: Mapping[str, int] = {}
    """Namespaces of which no more is accepted until executors have taken some, and how much of them waits."""

    @property
    def rate(self) -> float:
        """Jobs a second that are done, or would be if there were enough of them."""
        return self.ended_per_second or _INTAKE

    @property
    def intake_rate(self) -> float:
        """Jobs of the far future a second that are only read and put away."""
        return max(self.ended_per_second, _INTAKE)

    def drain_seconds(self, accepted: int = 0) -> float:
        """How long it takes to be on time again. `accepted`: jobs that no heartbeat has counted yet, so that nobody
        knows yet how fast they will be done."""
        return drain_seconds(self.to_drain, self.rate) + accepted / self.intake_rate

    def read_seconds(self, accepted: int = 0) -> float:
        """How long it takes to read what is in the log."""
        return (self.unread + accepted) / self.intake_rate

    @property
    def saturated(self) -> bool:
        return self.drain_seconds() > DRAIN_LIMIT_SECONDS


def system_load(heartbeats: Iterable[SchedulerHeartbeat], now: Instant) -> SystemLoad:
    """Schedulers that do not say how far behind they are count as being on time."""
    beats = _living(list(heartbeats), now)
    loads = [beat.load for beat in beats if beat.load is not None]
    partitions = [partition for beat in beats for partition in beat.partitions]
    crowded: Counter[str] = Counter()
    for load in loads:
        crowded.update(load.crowded)
    since = [load.saturated_since for load in loads if load.saturated_since is not None]
    return SystemLoad(
        to_drain=sum(load.to_drain for load in loads),
        unread=sum(partition.unread for partition in partitions),
        backlog=sum(partition.backlog for partition in partitions),
        waits_since=min((p.waits_since for p in partitions if p.waits_since is not None), default=None),
        ended_per_second=sum(load.ended_per_second for load in loads),
        behind_seconds=max((load.behind_seconds for load in loads), default=0.0),
        saturated_since=min(since, default=None),
        crowded=crowded,
    )


def _living(beats: list[SchedulerHeartbeat], now: Instant) -> list[SchedulerHeartbeat]:
    """One whose clock is ahead of ours does not make the others old."""
    newest = min(max((beat.at for beat in beats), default=0), now)
    return [beat for beat in beats if beat.at >= newest - _SILENT]
