"""Which groups of the timing index belong to the minutes that are near, by what their keys say; not what is in them.

A group is read when its time has come and there is room for it. Of a crowded minute those of the same few seconds are
read in the order of definitions: so a crowd that is due at one instant is decided in that order, about.
"""

from collections.abc import Collection
from heapq import heapify, heappop, heappush

from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.timing_groups import PART, Label
from waterclock.proto.events import Instant


class Unread(Struct, frozen=True, gc=False, order=True):
    """A group that is to be read. The order of fields is the order in which that is done."""

    part: int
    oldest: int
    """The lowest version in it; 0: not known."""
    key: str
    first: Instant
    """What is due before this is in memory."""
    count: int


def is_unlabelled(group: Unread) -> bool:
    """Whether it stands for all that earlier releases have filed in a minute: their keys do not say what is in them."""
    return group.key.endswith("*")


class GroupDirectory:
    def __init__(self, first_minute: int) -> None:
        self.listed_until = first_minute
        """The groups of the minutes before this one are known."""
        self._labels: dict[int, dict[str, Label]] = {}
        """By minute and key."""
        self._unread: tuple[list[Unread], list[Unread]] = ([], [])
        """One-shots, and whatever else: by whether it may recur. So is the next."""
        self._until = [first_minute * MINUTE] * 2
        self._reach: list[tuple[Instant, int] | None] = [None, None]
        """What `reach` has answered, until something changes."""
        self._void: list[Unread] = []

    def add(self, minute: int, key: str, label: Label) -> None:
        """A group that has been found, or is just written: then what it has of the time that is in memory is there."""
        self._labels.setdefault(minute, {})[key] = label
        self._wait(key, label, self._reached(label))

    def forget(self, minutes: Collection[int]) -> None:
        """All in there is decided."""
        gone = {key for minute in minutes for key in self._labels.pop(minute, ())}
        self._reach = [None, None]
        for heap in (*self._unread, self._void):
            if any(each.key in gone for each in heap):
                heap[:] = [each for each in heap if each.key not in gone]
                heapify(heap)

    def next(self, *, recurring: bool) -> Unread | None:
        """The group to be read next."""
        heap = self._unread[recurring]
        return heap[0] if heap else None

    def take(self, *, recurring: bool) -> Unread:
        """From now on it counts as read."""
        self._reach[recurring] = None
        return heappop(self._unread[recurring])

    def take_void(self, until: Instant) -> list[str]:
        """The groups with marks of what is due before an instant."""
        taken = []
        while self._void and self._void[0].part * PART < until:
            taken.append(heappop(self._void).key)
        return taken

    def reach(self, *, recurring: bool) -> tuple[Instant, int]:
        """Up to when all has been read, and the lowest version of what is due then and has not, or 0."""
        heap = self._unread[recurring]
        if not heap:
            found = self.listed_until * MINUTE, 0
        elif (known := self._reach[recurring]) is not None:
            found = known
        else:
            part = [each for each in heap if each.part == heap[0].part]
            until = min(each.first for each in part)
            found = self._reach[recurring] = until, min(each.oldest for each in part if each.first == until)
        self._until[recurring] = found[0]
        return found

    def shed(self, since: Instant, *, recurring: bool) -> None:
        """What is due from then on is not in memory any more."""
        self._until[recurring] = min(since, self._until[recurring])
        kinds = ("any", "recurring") if recurring else ("any", "once")
        known = {each.key: each.first for heap in self._unread for each in heap}
        again = {
            key: (label, min(since, known.get(key, since)))
            for labels in self._labels.values()
            for key, label in labels.items()
            if label.kind in kinds
        }
        self._reach = [None, None]
        for heap in self._unread:
            heap[:] = [each for each in heap if each.key not in again]
            heapify(heap)
        for key, (label, reached) in again.items():
            self._wait(key, label, reached)

    def count_due(self, now: Instant) -> int:
        """How many entries there are in groups that have not been read though their time has come."""
        return sum(each.count for heap in self._unread for each in heap if each.first <= now)

    def _reached(self, label: Label) -> Instant:
        match label.kind:
            case "once":
                return self._until[False]
            case "recurring":
                return self._until[True]
            case "any" | "void":
                return min(self._until)

    def _wait(self, key: str, label: Label, reached: Instant) -> None:
        """Of what is due from an instant on, if it has any of that."""
        if label.kind == "void":
            heappush(self._void, Unread(label.first // PART, 0, key, label.first, 0))
        elif label.last >= reached:
            first, recurring = max(label.first, reached), label.kind != "once"
            self._reach[recurring] = None
            heappush(self._unread[recurring], Unread(first // PART, label.oldest, key, first, label.count))
