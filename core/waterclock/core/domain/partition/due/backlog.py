"""What is due and waits for room: who goes next.

A higher priority goes first; in the same priority what recurs goes before one-shots; there, namespaces take turns, and
within a namespace its lines; in a line the one that has waited longest goes first. A line is a route, or all the routes
that nobody serves: who makes up a thousand queues has one line. A job that has gone stands at the
end of its line again, so its many fires do not hold up another's one. What has no room is passed over: work that nobody
serves holds up only itself.
"""

from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import TypeVar

from msgspec import Struct

from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.room import UNSERVED, Lane, lane
from waterclock.core.domain.partition.state import Run
from waterclock.proto.events import Instant

Waiting = ArmedSchedule | Run

_Rank = tuple[int, bool]
"""Negative priority, and whether it is a one-shot: the smallest goes first."""
_Line = deque[Waiting]
HasRoom = Callable[[str, int], bool]
"""Of a route and a priority."""
_MOST_DROPPED = 1_000
_Due = tuple[Instant, int, int, ArmedSchedule]
"""Due time, version, number."""
_Unsettled = tuple[int, int, ArmedSchedule]
"""Version, number."""
Key = TypeVar("Key")
Held = TypeVar("Held", _Due, _Unsettled)


class _Namespace(Struct):
    lines: dict[str, _Line]
    """By name, the one whose turn is next first."""


class Backlog:
    def __init__(self, served: frozenset[str] | None = None) -> None:
        """`served`: the routes that have a line of their own; None: each has one."""
        self.served = served
        self._ranks: list[_Rank] = []
        self._namespaces: dict[_Rank, dict[str, _Namespace]] = {}
        """By rank and name, the one whose turn is next first."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """How many wait, by namespace and line."""
        self._by_priority: Counter[tuple[str, int]] = Counter()
        """The same, by route and priority."""
        self._size = 0
        self._dropped = 0
        """How many stand in a line and do not wait any more."""
        self._numbers = count()
        self._by_due: list[_Due] = []
        self._by_version: list[_Unsettled] = []

    def __len__(self) -> int:
        return self._size

    def add(self, item: Waiting, lane: Lane) -> None:
        """At the end of its line. A schedule that waits already stays where it is."""
        if isinstance(item, ArmedSchedule):
            if item.waiting:
                return
            item.waiting = True
            if item.unsettled:
                heappush(self._by_version, (item.version, next(self._numbers), item))
            else:
                heappush(self._by_due, (item.due, item.version, next(self._numbers), item))
        rank = (-lane.priority, not lane.recurring)
        namespaces = self._namespaces.get(rank)
        if namespaces is None:
            namespaces = self._namespaces[rank] = {}
            insort(self._ranks, rank)
        namespace = namespaces.get(lane.namespace)
        if namespace is None:
            namespace = namespaces[lane.namespace] = _Namespace({})
        self._stand_in_line(namespace, self._line_of(lane.route), item)
        self._count(lane, 1)

    def regroup(self, served: frozenset[str] | None) -> None:
        """Others are served now: some stand in another line from now on."""
        self.served = served
        for namespaces in self._namespaces.values():
            for name, namespace in namespaces.items():
                for line in [line for line in namespace.lines if self._is_to_split(line)]:
                    self.counts.pop((name, line), None)
                    for item in namespace.lines.pop(line):
                        now = self._line_of(_route(item))
                        self._stand_in_line(namespace, now, item)
                        if _waits(item):
                            self.counts[name, now] += 1

    def _is_to_split(self, line: str) -> bool:
        """A route that has a line of its own, as before, is none of those."""
        return line == UNSERVED or self._line_of(line) != line

    def _line_of(self, route: str) -> str:
        return route if self.served is None or route in self.served else UNSERVED

    def _stand_in_line(self, namespace: _Namespace, line: str, item: Waiting) -> None:
        waiting = namespace.lines.get(line)
        if waiting is None:
            waiting = namespace.lines[line] = deque()
        waiting.append(item)

    def drop(self, item: ArmedSchedule) -> None:
        """It waits no more. Where it stood in line it is passed over."""
        if not item.waiting:
            return
        item.waiting = False
        self._count(item.lane, -1)
        self._dropped += 1
        if self._dropped > max(_MOST_DROPPED, self._size):
            self._compact()

    def _count(self, lane: Lane, change: int) -> None:
        self._size += change
        by_line, by_priority = (lane.namespace, self._line_of(lane.route)), (lane.route, lane.priority)
        _add(self.counts, by_line, change)
        _add(self._by_priority, by_priority, change)

    def take(self, most: int, has_room: HasRoom) -> Iterator[Waiting]:
        """The next ones, one by one, while there is room: what the taker does with one may leave none for the next."""
        for rank in list(self._ranks):
            for item in self._take_of_rank(rank, has_room):
                yield item
                most -= 1
                if most <= 0:
                    return

    def take_oldest(self) -> ArmedSchedule | None:
        """The schedule that holds the cursor back the most, room or not. Where it stood in line it is passed over."""
        _forget(self._by_due, _is_due)
        _forget(self._by_version, _is_unsettled)
        heap = self._by_due or self._by_version
        if not heap:
            return None
        item = heap[0][-1]
        item.waiting = False
        self._count(item.lane, -1)
        return item

    @property
    def oldest_due(self) -> Instant | None:
        """Of what only the time cursor says that it is not decided: all that was due before this is."""
        oldest = self.oldest
        return None if oldest is None else oldest[0]

    @property
    def oldest(self) -> tuple[Instant, int] | None:
        """The same, and the lowest version of what is due then."""
        _forget(self._by_due, _is_due)
        return self._by_due[0][:2] if self._by_due else None

    @property
    def waits_since(self) -> Instant | None:
        """When the first of those that wait was due, or one of the first."""
        oldest = self.oldest_due
        if self.oldest_unsettled is None:
            return oldest
        due = self._by_version[0][2].due
        return due if oldest is None else min(due, oldest)

    @property
    def oldest_unsettled(self) -> int | None:
        """The first definition with a fire that was due when it was read and is not decided."""
        _forget(self._by_version, _is_unsettled)
        return self._by_version[0][0] if self._by_version else None

    def sizes(self, most: int) -> Iterator[tuple[str, int, int]]:
        """How many wait, by route and priority: of so many of them."""
        for (route, priority), size in islice(self._by_priority.items(), most):
            yield route, priority, size

    def count_on(self, counts: Callable[[str], bool], *, recurring: bool) -> int:
        """How many stand in the lines of some routes, of those that recur or of one-shots."""
        return sum(
            len(line)
            for rank, namespaces in self._namespaces.items()
            if rank[1] != recurring
            for namespace in namespaces.values()
            for route, line in namespace.lines.items()
            if counts(route)
        )

    def oldest_on(self, counts: Callable[[str], bool]) -> Instant | None:
        """When the first was due of what waits on some routes, as far as the heads of the lines tell."""
        heads = (
            next((item.due for item in line if _waits(item)), None)
            for namespaces in self._namespaces.values()
            for namespace in namespaces.values()
            for route, line in namespace.lines.items()
            if counts(route)
        )
        return min((due for due in heads if due is not None), default=None)

    def _compact(self) -> None:
        """Forget those that do not wait any more: a line without room would keep them."""
        for rank in list(self._ranks):
            namespaces = self._namespaces[rank]
            for name, namespace in list(namespaces.items()):
                for line, items in list(namespace.lines.items()):
                    namespace.lines[line] = deque(filter(_waits, items))
                    if not namespace.lines[line]:
                        del namespace.lines[line]
                if not namespace.lines:
                    del namespaces[name]
            if not namespaces:
                del self._namespaces[rank]
                self._ranks.remove(rank)
        self._by_due = list(filter(_is_due, self._by_due))
        self._by_version = list(filter(_is_unsettled, self._by_version))
        heapify(self._by_due)
        heapify(self._by_version)
        self._dropped = 0

    def _take_of_rank(self, rank: _Rank, has_room: HasRoom) -> Iterator[Waiting]:
        namespaces = self._namespaces[rank]
        full: set[str] = set()
        """Namespaces without any room: they are not asked again this time."""
        while len(full) < len(namespaces):
            name = next(name for name in namespaces if name not in full)
            lines = namespaces[name].lines
            route = next((route for route in lines if has_room(route, -rank[0])), None)
            if route is None:
                full.add(name)
                continue
            line = lines[route]
            item = line.popleft()
            if not line:
                del lines[route]
            elif len(lines) > 1:
                lines[route] = lines.pop(route)
            if not lines:
                del namespaces[name]
            elif len(namespaces) > 1:
                namespaces[name] = namespaces.pop(name)
            if isinstance(item, Run):
                self._count(lane(-rank[0], not rank[1], name, item.route), -1)
            elif item.waiting:
                item.waiting = False
                self._count(item.lane, -1)
            else:
                self._dropped = max(0, self._dropped - 1)
                continue
            yield item
        if not namespaces:
            del self._namespaces[rank]
            self._ranks.remove(rank)


def _add(counts: Counter[Key], key: Key, change: int) -> None:
    """A count of 0 is not kept."""
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]


def _route(item: Waiting) -> str:
    return item.route if isinstance(item, Run) else item.lane.route


def _waits(item: Waiting) -> bool:
    return isinstance(item, Run) or item.waiting


def _is_due(held: _Due) -> bool:
    return held[3].waiting and held[3].due == held[0]


def _is_unsettled(held: _Unsettled) -> bool:
    return held[2].waiting and held[2].unsettled


def _forget(heap: list[Held], holds: Callable[[Held], bool]) -> None:
    """Drop from the top what does not wait any more, or waits for a later fire."""
    while heap and not holds(heap[0]):
        heappop(heap)
