"""The days of the calendar that a cron matches, by month, day and weekday.

A set of small numbers as an integer: bit n says that n is in it.
"""

from calendar import monthrange
from datetime import date
from functools import lru_cache

from msgspec import Struct


def lowest(mask: int, start: int) -> int:
    """The smallest member from `start` on, or -1."""
    rest = mask >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1


def highest(mask: int, end: int) -> int:
    """The largest member up to and including `end`, or -1."""
    return (mask & ((2 << end) - 1)).bit_length() - 1


_FIRST_YEAR, _LAST_YEAR = 1, 9_998
_YEARS = 41
"""How far to look for a matching day. What a month can hold is its length and the weekday it starts on, and the
rarest of those, a leap February, comes back after 40 years at most (around 2100)."""
_WHOLE_WEEK, _WHOLE_MONTH = 0b1111111, (2 << 31) - 2
_EVERY_SEVENTH = sum(1 << day for day in range(1, 32, 7))


_month = lru_cache(maxsize=2_048)(monthrange)
"""The weekday that a month starts on, from Monday, and its length."""


def _nearest_workday(day: int, first: int, length: int) -> int:
    """The day from Monday to Friday next to a day of a month that starts on weekday `first`, as a set; empty where
    the month has no such day."""
    if day > length:
        return 0
    match (first + day - 1) % 7:
        case 6:
            return 1 << (day - 1 if day > 1 else 3)
        case 0:
            return 1 << (day + 1 if day < length else length - 2)
        case _:
            return 1 << day


class Days(Struct, frozen=True, gc=False):
    """Days are proleptic ordinals, sets are bitsets."""

    months: int
    month_days: int
    weekdays: int
    """0 is Sunday."""
    last_day: bool = False
    nth_weekdays: tuple[tuple[int, int], ...] = ()
    """(weekday, n): the n-th of the month, 0 for the last."""
    either: bool = False
    """Day and weekday are both restricted, so that one of them is enough."""
    nearest_to: tuple[int, ...] = ()
    """Days whose nearest day from Monday to Friday in the same month matches, 0 for the last of the month."""

    def of_month(self, year: int, month: int) -> int:
        """The set of matching days of a month."""
        if not self.months >> month & 1:
            return 0
        monday_based, length = _month(year, month)
        first = (monday_based + 1) % 7
        whole = (2 << length) - 2
        by_day = self.month_days & whole | (1 << length if self.last_day else 0)
        for day in self.nearest_to:
            by_day |= _nearest_workday(day or length, first, length)
        by_weekday = self._weekdays(first, length) & whole
        return by_day | by_weekday if self.either else by_day & by_weekday

    def next(self, ordinal: int) -> int | None:
        """The first matching day from this one on."""
        day = date.fromordinal(ordinal)
        found = lowest(self.of_month(day.year, day.month), day.day)
        if found > 0:
            return ordinal + found - day.day
        month = day.month
        for year in range(day.year, min(day.year + _YEARS, _LAST_YEAR) + 1):
            while (month := lowest(self.months, month + 1)) > 0:
                if (found := lowest(self.of_month(year, month), 1)) > 0:
                    return date(year, month, found).toordinal()
            month = 0
        return None

    def previous(self, ordinal: int) -> int | None:
        """The last matching day up to and including this one."""
        day = date.fromordinal(ordinal)
        found = highest(self.of_month(day.year, day.month), day.day)
        if found > 0:
            return ordinal + found - day.day
        month = day.month
        for year in range(day.year, max(day.year - _YEARS, _FIRST_YEAR) - 1, -1):
            while (month := highest(self.months, month - 1)) > 0:
                if (found := highest(self.of_month(year, month), 31)) > 0:
                    return date(year, month, found).toordinal()
            month = 13
        return None

    def count(self, start: int, end: int) -> int:
        """How many days match in [start, end)."""
        if end <= start:
            return 0
        first, last = date.fromordinal(start), date.fromordinal(end - 1)
        total = 0
        for months in range(first.year * 12 + first.month - 1, last.year * 12 + last.month):
            total += self.of_month(months // 12, months % 12 + 1).bit_count()
        total -= (self.of_month(first.year, first.month) & ((1 << first.day) - 1)).bit_count()
        total -= (self.of_month(last.year, last.month) >> (last.day + 1)).bit_count()
        return total

    def _weekdays(self, first: int, length: int) -> int:
        """The days of a month that starts on weekday `first` by what is said of weekdays."""
        if self.weekdays == _WHOLE_WEEK:
            return _WHOLE_MONTH
        mask = 0
        for weekday in range(7):
            if self.weekdays >> weekday & 1:
                mask |= _EVERY_SEVENTH << (weekday - first) % 7
        for weekday, nth in self.nth_weekdays:
            day = 1 + (weekday - first) % 7
            mask |= 1 << (day + 7 * (nth - 1) if nth else day + (length - day) // 7 * 7)
        return mask
