"""Work credit: how much may be queued and running on each route, so that no more is decided than can be done.

The limit of a route is the largest of: four times the slots that serve it, two seconds of what ends on it, and a little
to begin with. A scheduler has its share of the slots by the partitions it owns. Its partitions share the limit, but
each may always have a small part of it: the flood in one does not stop the others.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from waterclock.core.domain.partition.room import PARTS, route_of
from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat

_PER_SLOT = 4
_SECONDS = 2.0
_AT_FIRST = 256
_SHORT = 4096
"""The least limit of a route whose runs are short: a crowd of them that is due at once need not wait for ends."""
_SHORT_SECONDS = 0.5
"""Runs that spend less than this queued and running are short."""
_LONG_SECONDS = 4.0
_HALF_LIFE = 2.0
"""How fast a rate is forgotten that is no longer reached although there is a backlog."""
_OVERCOMMITTED = 256
"""From so many runs beyond the limits on, no further workflow run or fan-out is opened."""


class Route(Struct):
    used: int = 0
    """Runs that are queued or running."""
    ended: int = 0
    """Since it was last measured."""
    refused: bool = False
    """Since it was last measured: something waits for room."""
    slots: int = 0
    rate: float = 0.0
    """Ended a second, by the last measurements."""
    best: float = 0.0
    """The same, as far as is known what it can be."""
    seconds: float = 0.0
    """How long a run is queued and running, about: how many are, divided by how many end a second."""
    short: bool = False
    limit: float = float(_AT_FIRST)

    def measure(self, elapsed: float, share: float) -> None:
        rate = self.ended / elapsed
        self.rate = (self.rate + rate) / 2
        if rate > self.best:
            self.best = rate
        elif self.refused:
            self.best = max(self.rate, self.best * 0.5 ** (elapsed / _HALF_LIFE))
        if self.ended:
            self.seconds = self.used / self.rate
            self.short = self.seconds < (_LONG_SECONDS if self.short else _SHORT_SECONDS)
        self.ended = 0
        self.refused = False
        self.limit = self._limit(share)

    @property
    def is_throughput(self) -> bool:
        """Whether it is the system that limits it, and not the slots of slow work."""
        return self.short and self.best > 0

    def _limit(self, share: float) -> float:
        at_least = share * max(_PER_SLOT * self.slots, _SHORT if self.short else _AT_FIRST)
        return max(at_least, _SECONDS * self.best if self.short else 0.0)


class Credit:
    """Of one scheduler, over all of its partitions."""

    def __init__(self, partitions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.routes: dict[str, Route] = {}
        self._partitions = partitions
        self._rooms: set[PartitionRoom] = set()
        self._clock = clock
        self._measured = clock()
        self._slots: Counter[str] = Counter()

    def open(self) -> "PartitionRoom":
        """For a partition that is taken over; to be closed when it is given up."""
        room = PartitionRoom(self)
        self._rooms.add(room)
        return room

    def close(self, room: "PartitionRoom") -> None:
        self._rooms.discard(room)
        for name, used in room.used.items():
            self.route(name).used -= used
        room.used.clear()

    def route(self, name: str) -> Route:
        route = self.routes.get(name)
        if route is None:
            route = self.routes[name] = Route(slots=self._slots[name])
            route.measure(1.0, self._share)
        return route

    def set_slots(self, executors: Iterable[ExecutorHeartbeat]) -> None:
        """Who serves what, by the heartbeats of the executors."""
        slots: Counter[str] = Counter()
        for executor in executors:
            lower = (
                names.TIERS[: names.TIERS.index(executor.tier) + 1] if executor.tier in names.TIERS else ()
            )
            for queue in executor.queues:
                for handler in (None, *executor.handlers):
                    for tier in lower:
                        slots[route_of(queue, handler, tier)] += executor.slots
        self._slots = slots
        for name, route in self.routes.items():
            route.slots = slots[name]

    def measure(self) -> None:
        """A few times a second: what ended since, and what may be queued from now on."""
        now = self._clock()
        elapsed = now - self._measured
        if elapsed <= 0:
            return
        self._measured = now
        for route in self.routes.values():
            route.measure(elapsed, self._share)

    @property
    def reserve(self) -> float:
        """The part of a limit that each partition may have in any case."""
        return 0.5 / max(1, len(self._rooms))

    @property
    def is_overcommitted(self) -> bool:
        """Whether parts of workflow runs and fan-outs have taken much more than there is."""
        beyond = sum(
            max(0.0, route.used - route.limit) for route in self.routes.values() if route.is_throughput
        )
        return beyond > _OVERCOMMITTED

    @property
    def _share(self) -> float:
        return max(1, len(self._rooms)) / self._partitions


class PartitionRoom:
    """A partition's view of the credit (core/domain/partition/room.py says what it is asked)."""

    def __init__(self, credit: Credit) -> None:
        self.used: Counter[str] = Counter()
        self._credit = credit

    def has(self, route: str) -> bool:
        if route == PARTS:
            return not self._credit.is_overcommitted
        state = self._credit.routes.get(route) or self._credit.route(route)
        if state.used < state.limit or self.used[route] < state.limit * self._credit.reserve:
            return True
        state.refused = True
        return False

    def changed(self, route: str, by: int) -> None:
        state = self._credit.routes.get(route) or self._credit.route(route)
        self.used[route] += by
        state.used += by
        if by < 0:
            state.ended -= by
            if state.refused:
                state.limit += 1  # until it is measured again: something waits, and what was given has ended
