"""A hierarchical timing wheel: insert in O(1), take what is due at a cost of what is due.

Six levels of 64 slots; a slot of level 0 is one millisecond, of level n 64**n. An occupied slot is a bit in its
level's map, so that finding the next one is arithmetic and not a walk. Items beyond the last level wait in it
and are placed again when it turns. No single item is removed: the owner of an item checks on expiry whether it still
holds.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")

_BITS = 6
_SLOTS = 1 << _BITS
_MASK = _SLOTS - 1
_LEVELS = 6
_TICK = 1000
_REACH = (_SLOTS - 2) << (_BITS * (_LEVELS - 1))
"""How far ahead an item is placed: never all the way round to the slot the wheel stands on."""
_FEW = 32
"""So many items of a slot are looked at to know when the first of them is due."""


class Wheel(Generic[T]):
    def __init__(self, now: int) -> None:
        self._tick = now // _TICK
        self._occupied = [0] * _LEVELS
        self._slots: list[dict[int, list[tuple[int, T]]]] = [{} for _ in range(_LEVELS)]
        self._overdue: deque[tuple[int, T]] = deque()
        """Due, in the order of their times, but for what was added when it was due already."""
        self._size = 0
        self._next: tuple[int, int, int] | None = None
        self._next_is_known = True

    def __len__(self) -> int:
        return self._size

    def add(self, due: int, item: T) -> None:
        """Due is in microseconds; an item is never handed out before it."""
        self._size += 1
        self._place(due, item)

    def next_due(self) -> int | None:
        """An instant before which nothing is due, or None when the wheel is empty. Exact within level 0, and where few
        items share a slot; else it is when the slot begins, and whoever wakes up then finds nothing. Of what was added
        when it was due already, and is not the first of its kind, the due time may be earlier."""
        if self._overdue:
            return self._overdue[0][0]
        found = self._next_occupied()
        if found is None:
            return None
        start, level, slot = found
        if 0 < level < _LEVELS - 1 and len(items := self._slots[level][slot]) <= _FEW:
            start = _tick_of(min(items, key=_due)[0])
        return start * _TICK

    def take(self, now: int, most: int | None = None) -> list[tuple[int, T]]:
        """What is due at `now`, in order of due time; at most so many, the rest stays due."""
        overdue = self._overdue
        target = now // _TICK
        found = self._next_occupied()
        if found is not None and found[0] <= target:
            due = list(overdue)
            overdue.clear()
            while found is not None and found[0] <= target:
                start, level, slot = found
                self._tick = max(self._tick, start)
                items = self._slots[level].pop(slot)
                self._occupied[level] &= ~(1 << slot)
                self._next_is_known = False
                if level < _LEVELS - 1 and start + (1 << (level * _BITS)) - 1 <= target:
                    due.extend(items)  # all of them are due; in the last level some may be of much later
                else:
                    for at, item in items:
                        self._place(at, item)
                    due.extend(overdue)
                    overdue.clear()
                found = self._next_occupied()
            due.sort(key=_due)
            overdue.extend(due)
        elif len(overdue) > 1:
            overdue = self._overdue = deque(sorted(overdue, key=_due))
        self._tick = max(self._tick, target)
        count = len(overdue) if most is None else min(most, len(overdue))
        taken = list(islice(overdue, count))
        for _ in range(count):
            overdue.popleft()
        self._size -= count
        return taken

    def keep(self, wanted: Callable[[T], bool]) -> None:
        """Forget all others, at a cost of all that is there."""
        self._overdue = deque(pair for pair in self._overdue if wanted(pair[1]))
        self._size = len(self._overdue)
        for level, slots in enumerate(self._slots):
            for slot, items in list(slots.items()):
                kept = [pair for pair in items if wanted(pair[1])]
                self._size += len(kept)
                if kept:
                    slots[slot] = kept
                else:
                    del slots[slot]
                    self._occupied[level] &= ~(1 << slot)
        self._next_is_known = False

    def _place(self, due: int, item: T) -> None:
        tick = _tick_of(due)
        if tick <= self._tick:
            self._overdue.append((due, item))
            return
        tick = min(tick, self._tick + _REACH)
        level = ((tick ^ self._tick).bit_length() - 1) // _BITS
        if level >= _LEVELS:
            level = _LEVELS - 1
        slot = (tick >> (level * _BITS)) & _MASK
        self._slots[level].setdefault(slot, []).append((due, item))
        self._occupied[level] |= 1 << slot
        self._next_is_known = False

    def _next_occupied(self) -> tuple[int, int, int] | None:
        """(first tick, level, slot) of the earliest occupied slot. It stays so while the wheel turns towards it."""
        if not self._next_is_known:
            self._next = self._find_next_occupied()
            self._next_is_known = True
        return self._next

    def _find_next_occupied(self) -> tuple[int, int, int] | None:
        best: tuple[int, int, int] | None = None
        for level in range(_LEVELS):
            bits = self._occupied[level]
            if not bits:
                continue
            shift = level * _BITS
            here = (self._tick >> shift) & _MASK
            rotated = ((bits >> here) | (bits << (_SLOTS - here))) & ((1 << _SLOTS) - 1)
            ahead = (rotated & -rotated).bit_length() - 1
            start = ((self._tick >> shift) + ahead) << shift
            candidate = (start, level, (here + ahead) & _MASK)
            if best is None or candidate[0] < best[0]:
                best = candidate
        return best


def _tick_of(due: int) -> int:
    """The first one by which it is due."""
    return -(-due // _TICK)


def _due(pair: tuple[int, object]) -> int:
    return pair[0]
