"""Work credit: how much may be queued and running on each route, so that no more is decided than can be done.

The limit of a route is the largest of: four times the slots that serve it, a moment's worth of what ends on it, and a
little to begin with; of each priority as much, since what goes after it is not in its way. A scheduler has its share of
the slots by the partitions it owns. Its partitions share the limit, but each may always have its equal part of it: the
flood in one does not stop the others. All routes that nobody serves share one limit: anybody can make up names of
queues.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.parcels import MOST
from waterclock.core.domain.partition.room import PARTS, route_of
from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat

_PER_SLOT = 4
_SECONDS = 0.4
"""What is queued and running of short work is worth so much time, about: it is also how long somebody else's run waits
behind it in the queue. It must be clearly longer than from an end to the next decision, a quarter of a second under
load; two seconds were no faster.
"""
_AT_FIRST = 256
_SHORT = 3072
"""The least limit of a route whose runs are short and of which nothing waits: a crowd of them that is due at once need
not wait for ends."""
_CONTENDED = 512
"""The same if something does wait."""
_SHORT_SECONDS = 0.25
"""Runs that are executed in less than this are short."""
_HALF_LIFE = 2.0
"""How fast a rate is forgotten that is no longer reached although there is a backlog."""
_STANDS_STILL = 10.0
"""If nothing at all has ended for less than this it is not that work is slow: the server or the executors are away, and
what can be done is as before."""
_FORGOTTEN = 0.01
"""A route that nobody serves any more is forgotten when fewer end a second, and none is queued."""
_SLOTS_TO_SPARE = 2.0
"""If the slots could execute so many times what ends, it is not for them that work waits."""
_FREE = 0.5
"""The part of a limit that any partition may use up. Of the rest each has its share: else the one that is behind would
stay behind, since whoever has much queued is the first to see that something ended."""
_PARCEL_SECONDS = 0.005
"""What travels in one message is worth so much time of one slot, about."""
_BACKLOG = 64
"""So many runs of a route that are queued or running are a backlog. Fewer go one by one, each to whoever is free."""
_OVERCOMMITTED = 256
"""From so many runs beyond the limits on, no further workflow run or fan-out is opened."""


class Route(Struct):
    used: int = 0
    """Runs that are queued or running."""
    high: Counter[int] = field(default_factory=Counter)
    """Of those, how many are of each priority above 0."""
    ended: int = 0
    """Since it was last measured."""
    executed: int = 0
    """Of those, how many were executed; and for how long all together, in microseconds."""
    executed_for: int = 0
    refused: bool = False
    """Since it was last measured: something waits for room."""
    slots: int = 0
    rate: float = 0.0
    """Ended a second, by the last measurements."""
    best: float = 0.0
    """The same, as far as is known what it can be."""
    seconds: float | None = None
    """How long a run is executed, on average; None: that is not known yet."""
    still: float = 0.0
    """For so many seconds nothing of it has ended."""
    limit: float = float(_AT_FIRST)
    takes_parcels: bool = False
    """All who serve it take many attempts in one message."""
    exact_lines: bool = True
    """All who serve it take work from the lines of exactly one priority."""
    parcel: int = 1
    """How many it may be."""

    def measure(self, elapsed: float, share: float) -> None:
        self.still += elapsed
        if self.ended or not self.used or self.still > _STANDS_STILL:
            rate = self.ended / self.still
            self.rate = (self.rate + rate) / 2
            if rate > self.best:
                self.best = rate
            elif self.refused:
                self.best = max(self.rate, self.best * 0.5 ** (elapsed / _HALF_LIFE))
        if self.ended or not self.used:
            self.still = 0.0
        if self.executed:
            seconds = self.executed_for / self.executed / SECOND
            self.seconds = seconds if self.seconds is None else (self.seconds + seconds) / 2
        self.ended = self.executed = self.executed_for = 0
        self.limit = self._limit(share)
        self.parcel = self._parcel()
        self.refused = False

    @property
    def is_short(self) -> bool:
        return self.seconds is not None and self.seconds < _SHORT_SECONDS

    @property
    def waits_for_slots(self) -> bool:
        """Whether its work waits for the slots of slow work, and not for the system."""
        if self.seconds is None:
            return self.slots == 0
        if not self.slots:
            return not self.is_short
        return self.slots < _SLOTS_TO_SPARE * self.best * self.seconds

    def _parcel(self) -> int:
        if not self.takes_parcels or self.seconds is None:
            return 1
        return MOST if self.seconds * MOST <= _PARCEL_SECONDS else max(1, int(_PARCEL_SECONDS / self.seconds))

    def _limit(self, share: float) -> float:
        short = _CONTENDED if self.refused else _SHORT
        at_least = share * max(_PER_SLOT * self.slots, short if self.is_short else _AT_FIRST)
        return at_least if self.waits_for_slots else max(at_least, _SECONDS * self.best)


class Credit:
    """Of one scheduler, over all of its partitions."""

    def __init__(self, partitions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.routes: dict[str, Route] = {}
        self.saturated = False
        """Set by who measures the load."""
        self._partitions = partitions
        self._rooms: set[PartitionRoom] = set()
        self._clock = clock
        self._measured = clock()
        self._slots: Counter[str] = Counter()
        self._take_parcels: set[str] = set()
        self._without_lines: set[str] = set()
        self.served = frozenset((PARTS,))
        self.unserved = Route()
        """All that nobody serves."""

    def open(self) -> "PartitionRoom":
        """For a partition that is taken over; to be closed when it is given up."""
        room = PartitionRoom(self)
        self._rooms.add(room)
        return room

    def close(self, room: "PartitionRoom") -> None:
        self._rooms.discard(room)
        for name, used in room.used.items():
            route = self.routes.get(name, self.unserved)
            route.used -= used
            _subtract(route.high, room.high.get(name))
        room.used.clear()
        room.high.clear()

    def route(self, name: str) -> Route:
        """Where its runs count: by themselves if somebody serves it, else with all others that nobody serves."""
        route = self.routes.get(name)
        if route is None:
            return self.serve(name) if name in self._slots or name == PARTS else self.unserved
        return route

    def serve(self, name: str) -> Route:
        """Somebody does: from now on its runs count by themselves."""
        route = self.routes[name] = Route(
            slots=self._slots[name],
            takes_parcels=name in self._take_parcels,
            exact_lines=name not in self._without_lines,
        )
        for room in self._rooms:
            route.used += room.used[name]
            self.unserved.used -= room.used[name]
            room.unserved -= room.used[name]
            high = room.high.get(name)
            if high:
                route.high.update(high)
                _subtract(self.unserved.high, high)
                _subtract(room.unserved_high, high)
        route.measure(1.0, self._share)
        self._set_served()
        return route

    def set_slots(self, executors: Iterable[ExecutorHeartbeat]) -> None:
        """Who serves what, by the heartbeats of the executors."""
        slots: Counter[str] = Counter()
        one_by_one: set[str] = set()
        without_lines: set[str] = set()
        for executor in executors:
            lower = (
                names.TIERS[: names.TIERS.index(executor.tier) + 1] if executor.tier in names.TIERS else ()
            )
            for queue in executor.queues:
                for handler in (None, *executor.handlers):
                    for tier in lower:
                        route = route_of(queue, handler, tier)
                        slots[route] += executor.slots
                        if handler not in executor.parcels:
                            one_by_one.add(route)
                        if not executor.lines:
                            without_lines.add(route)
        self._slots, self._take_parcels = slots, slots.keys() - one_by_one
        self._without_lines = without_lines
        for name, state in self.routes.items():
            state.slots, state.takes_parcels = slots[name], name in self._take_parcels
            state.exact_lines = name not in without_lines
        self._set_served()

    def measure(self) -> None:
        """A few times a second: what ended since, and what may be queued from now on."""
        now = self._clock()
        elapsed = now - self._measured
        if elapsed <= 0:
            return
        self._measured = now
        self.unserved.measure(elapsed, self._share)
        for name, route in list(self.routes.items()):
            if route.slots or route.used or route.rate > _FORGOTTEN or name == PARTS:
                route.measure(elapsed, self._share)
            else:
                del self.routes[name]
        self._set_served()

    @property
    def lacks_slots(self) -> bool:
        """Whether there is work on a route of which nobody is known who serves it. Somebody may be new."""
        return any(not self._slots[name] and name != PARTS for room in self._rooms for name in room.used)

    @property
    def equal_part(self) -> float:
        """The part of a limit that each partition may have in any case."""
        return 1.0 / max(1, len(self._rooms))

    @property
    def is_overcommitted(self) -> bool:
        """Whether parts of workflow runs and fan-outs have taken much more than there is."""
        beyond = (
            route.used - route.limit * (1 + len(route.high))
            for route in self.routes.values()
            if not route.waits_for_slots
        )
        return sum(max(0.0, more) for more in beyond) > _OVERCOMMITTED

    def _set_served(self) -> None:
        served = frozenset((PARTS, *self.routes, *self._slots))
        if served != self.served:
            self.served = served

    @property
    def _share(self) -> float:
        return max(1, len(self._rooms)) / self._partitions


class PartitionRoom:
    """A partition's view of the credit (core/domain/partition/room.py says what it is asked)."""

    def __init__(self, credit: Credit) -> None:
        self.used: Counter[str] = Counter()
        """By route."""
        self.high: dict[str, Counter[int]] = {}
        """Of those, by route and priority, what is above 0."""
        self.unserved = 0
        """Of those, on routes that nobody serves; and by priority."""
        self.unserved_high: Counter[int] = Counter()
        self._credit = credit

    @property
    def saturated(self) -> bool:
        return self._credit.saturated

    @property
    def served(self) -> frozenset[str]:
        return self._credit.served

    def has(self, route: str, priority: int = 0) -> bool:
        if route == PARTS:
            return not self._credit.is_overcommitted
        state = self._credit.routes.get(route) or self._credit.route(route)
        is_unserved = state is self._credit.unserved
        used, ours = state.used, self.unserved if is_unserved else self.used[route]
        if state.high or priority > 0:
            high = self.unserved_high if is_unserved else self.high.get(route) or _NONE
            used, ours = _of_priority(used, state.high, priority), _of_priority(ours, high, priority)
        if used < state.limit * _FREE or ours < state.limit * self._credit.equal_part:
            return True
        state.refused = True
        return False

    def has_exact_lines(self, route: str) -> bool:
        return self._credit.route(route).exact_lines

    def waits_for_slots(self, route: str) -> bool:
        return self._credit.route(route).waits_for_slots

    def parcel_size(self, route: str) -> int:
        state = self._credit.route(route)
        return state.parcel if state.used >= _BACKLOG else 1

    def began(self, route: str, priority: int = 0) -> None:
        state = self._credit.routes.get(route) or self._credit.route(route)
        self.used[route] += 1
        state.used += 1
        is_unserved = state is self._credit.unserved
        if is_unserved:
            self.unserved += 1
        if priority > 0:
            self.high.setdefault(route, Counter())[priority] += 1
            state.high[priority] += 1
            if is_unserved:
                self.unserved_high[priority] += 1

    def ended(self, route: str, ran: int | None, priority: int = 0, count: int = 1) -> None:
        credit = self._credit
        state = credit.routes.get(route) or credit.route(route)
        if state is credit.unserved and ran is not None:
            state = credit.serve(route)  # somebody has executed it
        left = self.used[route] = self.used[route] - count
        if not left:
            del self.used[route]
        state.used -= count
        is_unserved = state is credit.unserved
        if is_unserved:
            self.unserved -= count
        if priority > 0:
            these = {priority: count}
            _subtract(self.high[route], these)
            if not self.high[route]:
                del self.high[route]
            _subtract(state.high, these)
            if is_unserved:
                _subtract(self.unserved_high, these)
        state.ended += count
        if ran is not None:
            state.executed += count
            state.executed_for += ran
        if state.refused:
            state.limit += count  # until it is measured again: something waits, and what was given has ended


_NONE: Counter[int] = Counter()


def _of_priority(used: int, high: Counter[int], priority: int) -> int:
    """How many of those that are used are of this priority."""
    return high[priority] if priority > 0 else used - high.total()


def _subtract(counts: Counter[int], fewer: Mapping[int, int] | None) -> None:
    for priority, count in (fewer or {}).items():
        counts[priority] -= count
        if not counts[priority]:
            del counts[priority]
