"""A time zone as stretches of constant offset, which is what makes gaps and overlaps plain arithmetic.

`zoneinfo` answers for one instant at a time and keeps its transitions to itself, so they are found by probing and
bisection, in blocks of about a year that are computed once.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from zoneinfo import ZoneInfo

from msgspec import Struct

FIRST, LAST = -62_135_000_000, 253_370_000_000
"""The seconds a schedule is evaluated for: the years 1 to 9998, with room for offsets at both ends."""
TURN = 2 * 86_400
"""More than any change of offset: clocks that show a time again, or for the first time, do so within this."""

_BLOCK = 25
_PROBE = 3 * 86_400
"""Shorter than any stretch in the zone database (a test compares): two changes never hide between two probes."""
_KEY = re.compile(r"(?!posix/|right/|localtime|posixrules|Factory)[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")


class Period(Struct, frozen=True, gc=False):
    """The seconds [start, end) of UTC during which the offset stays the same. Wall times are UTC plus offset."""

    start: int
    end: int
    offset: int
    seen: int
    """How far the wall clock had come before `start`. Less than the wall time at `start`: the times between never
    were. More: the times up to here come again."""
    again: int
    """From this wall time on, what this period shows is shown again later."""


class Zone:
    def __init__(self, info: ZoneInfo) -> None:
        self._info = info
        self._fixed: Period | None = None
        if (offset := info.utcoffset(None)) is not None:
            seconds = _seconds(offset)
            self._fixed = Period(FIRST, LAST, seconds, FIRST + seconds, LAST + seconds)
        self._blocks = lru_cache(maxsize=256)(self._block)

    def period(self, second: int) -> Period:
        """The period an instant falls into."""
        if self._fixed is not None:
            return self._fixed
        starts, periods = self._blocks(second >> _BLOCK)
        return periods[bisect_right(starts, second) - 1]

    def _block(self, number: int) -> tuple[list[int], list[Period]]:
        start, end = number << _BLOCK, (number + 1) << _BLOCK
        edges = [*self._edges(start - TURN, end + TURN)]
        bounds = [*(edge for edge, _ in edges[1:]), end + TURN]
        shown = [bound + offset for (_, offset), bound in zip(edges, bounds, strict=True)]
        seen = [*accumulate(shown[:-1], max, initial=edges[0][0] + edges[0][1])]
        later = [*accumulate((edge + offset for edge, offset in reversed(edges[1:])), min, initial=shown[-1])]
        periods = [
            Period(
                max(edge, start),
                min(bound, end),
                offset,
                max(before, start + offset) if edge < start else before,
                again,
            )
            for (edge, offset), bound, before, again in zip(edges, bounds, seen, reversed(later), strict=True)
            if bound > start and edge < end
        ]
        return [period.start for period in periods], periods

    def _edges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(second, offset): where a period begins in [start, end), the first being `start` itself."""
        offset = self._offset(start)
        yield start, offset
        for probe in range(start + _PROBE, end + _PROBE, _PROBE):
            low, high = probe - _PROBE, min(probe, end)
            while self._offset(high) != offset:
                left, right = low, high
                while right - left > 1:
                    middle = (left + right) // 2
                    if self._offset(middle) == offset:
                        left = middle
                    else:
                        right = middle
                low, offset = right, self._offset(right)
                yield right, offset

    def _offset(self, second: int) -> int:
        offset = datetime.fromtimestamp(min(max(second, FIRST), LAST), self._info).utcoffset()
        return _seconds(offset or timedelta())


@lru_cache(maxsize=1024)
def zone(key: str) -> Zone | None:
    """The IANA zone of that name, or None if there is no such zone."""
    if _KEY.fullmatch(key) is None:
        return None
    try:
        return Zone(ZoneInfo(key))
    except (KeyError, ValueError, OSError):
        return None


def _seconds(offset: timedelta) -> int:
    return offset.days * 86_400 + offset.seconds
