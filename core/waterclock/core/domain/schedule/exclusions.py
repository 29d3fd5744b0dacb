"""Stretches of time in which a schedule does not fire: local dates, and windows from one instant to another."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime

from waterclock.core.domain.instants import SECOND, instant_of
from waterclock.core.domain.schedule.fire import InvalidSchedule
from waterclock.core.domain.schedule.zone import TURN, Zone

_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()


class Exclusions:
    """Disjoint windows [start, end), in order."""

    def __init__(self, windows: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(windows):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def around(self, instant: int) -> tuple[int, int] | None:
        """The window an instant falls into."""
        index = bisect_right(self._starts, instant) - 1
        if index >= 0 and instant < self._ends[index]:
            return self._starts[index], self._ends[index]
        return None


NOTHING = Exclusions(())


def parse(entries: Collection[str], zone: Zone) -> Exclusions:
    if not entries:
        return NOTHING
    return Exclusions(window for entry in entries for window in _windows(entry.strip(), zone))


def _windows(entry: str, zone: Zone) -> Iterator[tuple[int, int]]:
    first, slash, last = entry.partition("/")
    if slash:
        start, end = _instant(first, entry), _instant(last, entry)
        if end <= start:
            raise InvalidSchedule("exclude", f"'{entry}' ends before it starts")
        yield start, end
    else:
        yield from _local_day(_date(entry), zone)


def _local_day(day: date, zone: Zone) -> Iterator[tuple[int, int]]:
    """A date is one window, or two when the clock was put back across midnight, or none when it was left out."""
    wall = (day.toordinal() - _EPOCH) * _DAY
    second = wall - TURN
    while second < wall + _DAY + TURN:
        period = zone.period(second)
        start = max(period.start, wall - period.offset)
        end = min(period.end, wall + _DAY - period.offset)
        if start < end:
            yield start * SECOND, end * SECOND
        second = period.end


def _date(text: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or len(text) != 10 or not 1 < found.year < 9_998:
        raise InvalidSchedule(
            "exclude",
            f"'{text}' is neither a date (2026-12-25) nor a window of instants (start/end, RFC 3339)",
        )
    return found


def _instant(text: str, entry: str) -> int:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        time = None
    if time is None or "T" not in text.upper():
        raise InvalidSchedule("exclude", f"'{entry}': '{text}' is not an RFC 3339 instant")
    if time.tzinfo is None:
        raise InvalidSchedule("exclude", f"'{entry}': '{text}' has no offset (end it with Z or +02:00)")
    return instant_of(time)
