"""A cron expression as sets of wall-clock values, and what it fires on the wall clock of a time zone.

`Cron` knows a naive clock: seconds since 1970-01-01T00:00:00 of one that is never put forward or back. `ZonedCron` says
what becomes of it where the clock is. If the hour field starts with `*`, the cron follows elapsed time: it fires at
every instant whose local time matches, both passes of a repeated hour included, and nothing is moved. Otherwise the
hour is fixed: a local time in a gap fires at the first instant after it (`next_valid`; several become one) or not
at all (`skip`), and a repeated one fires the first time (`first`) or both times (`both`).
"""

from datetime import date

from msgspec import Struct

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.schedule.days import Days, highest, lowest
from waterclock.core.domain.schedule.fire import Fire, Note
from waterclock.core.domain.schedule.zone import FIRST, LAST, TURN, Period, Zone
from waterclock.proto.policies import DstGap, DstOverlap

_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()


class Cron(Struct, frozen=True):
    """Which wall-clock seconds match: a day and a time of day."""

    days: Days
    hours: int
    minutes: int
    seconds: int
    wildcard_hour: bool
    """The hour field starts with `*`: fires follow elapsed time instead of the clock on the wall."""

    def next(self, wall: int) -> int | None:
        """The first match from this second on."""
        day, second = divmod(wall, _DAY)
        found = self.days.next(day + _EPOCH)
        if found is None:
            return None
        if found == day + _EPOCH:
            if (time := self._time_from(second)) >= 0:
                return wall - second + time
            if (found := self.days.next(found + 1)) is None:
                return None
        return (found - _EPOCH) * _DAY + self._time_from(0)

    def previous(self, wall: int) -> int | None:
        """The last match up to and including this second."""
        day, second = divmod(wall, _DAY)
        found = self.days.previous(day + _EPOCH)
        if found is None:
            return None
        if found == day + _EPOCH:
            if (time := self._time_to(second)) >= 0:
                return wall - second + time
            if (found := self.days.previous(found - 1)) is None:
                return None
        return (found - _EPOCH) * _DAY + self._time_to(_DAY - 1)

    def count(self, start: int, end: int) -> int:
        """How many seconds match in [start, end)."""
        if end <= start:
            return 0
        first, last = start // _DAY + _EPOCH, end // _DAY + _EPOCH
        a_day = self.hours.bit_count() * self.minutes.bit_count() * self.seconds.bit_count()
        total = self.days.count(first, last) * a_day
        total -= self.days.count(first, first + 1) * self._times_before(start % _DAY)
        total += self.days.count(last, last + 1) * self._times_before(end % _DAY)
        return total

    def _time_from(self, time: int) -> int:
        minute_of_day, second = divmod(time, 60)
        hour, minute = divmod(minute_of_day, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (found := lowest(self.seconds, second)) >= 0:
                return time - second + found
            if (found := lowest(self.minutes, minute + 1)) >= 0:
                return (hour * 60 + found) * 60 + lowest(self.seconds, 0)
        if (found := lowest(self.hours, hour + 1)) >= 0:
            return (found * 60 + lowest(self.minutes, 0)) * 60 + lowest(self.seconds, 0)
        return -1

    def _time_to(self, time: int) -> int:
        minute_of_day, second = divmod(time, 60)
        hour, minute = divmod(minute_of_day, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (found := highest(self.seconds, second)) >= 0:
                return time - second + found
            if minute and (found := highest(self.minutes, minute - 1)) >= 0:
                return (hour * 60 + found) * 60 + highest(self.seconds, 59)
        if hour and (found := highest(self.hours, hour - 1)) >= 0:
            return (found * 60 + highest(self.minutes, 59)) * 60 + highest(self.seconds, 59)
        return -1

    def _times_before(self, time: int) -> int:
        minute_of_day, second = divmod(time, 60)
        hour, minute = divmod(minute_of_day, 60)
        seconds = (self.seconds & ((1 << second) - 1)).bit_count() if self.minutes >> minute & 1 else 0
        minutes = (self.minutes & ((1 << minute) - 1)).bit_count() * self.seconds.bit_count()
        hours = (
            (self.hours & ((1 << hour) - 1)).bit_count() * self.minutes.bit_count() * self.seconds.bit_count()
        )
        return hours + (minutes + seconds if self.hours >> hour & 1 else 0)


_HORIZON = 42 * 31_557_600
"""A cron may match days for ever and still only ever fall into gaps; the search gives up after this."""


class ZonedCron:
    def __init__(self, cron: Cron, zone: Zone, gap: DstGap, overlap: DstOverlap) -> None:
        self._cron = cron
        self._zone = zone
        self._fixed = not cron.wildcard_hour
        self._moves = self._fixed and gap == "next_valid"
        self._once = self._fixed and overlap == "first"

    def at_or_after(self, instant: int) -> Fire | None:
        second = max(-(-instant // SECOND), FIRST)
        horizon = min(second + _HORIZON, LAST)
        while second < horizon:
            period = self._zone.period(second)
            if second == period.start and self._fills_gap(period):
                return Fire(second * SECOND, "dst_gap")
            wall = second + period.offset
            if self._once and wall < period.seen:
                wall = period.seen
            match = self._cron.next(wall)
            if match is None:
                return None
            if match - period.offset < period.end:
                return Fire((match - period.offset) * SECOND, self._note(period, match))
            # After a turn no clock can be back before `wall`, and nothing matches from there to `match`: leap.
            second = max(period.end, match - TURN) if period.end - second >= TURN else period.end
        return None

    def at_or_before(self, instant: int) -> Fire | None:
        second = min(instant // SECOND, LAST - 1)
        horizon = max(second - _HORIZON, FIRST)
        while second >= horizon:
            period = self._zone.period(second)
            match = self._cron.previous(second + period.offset)
            if match is None:
                return None
            if match >= self._earliest(period):
                return Fire((match - period.offset) * SECOND, self._note(period, match))
            if self._fills_gap(period):
                return Fire(period.start * SECOND, "dst_gap")
            second = (
                min(period.start - 1, match + TURN) if second - period.start >= TURN else period.start - 1
            )
        return None

    def count(self, start: int, end: int) -> int:
        """How many fires lie in [start, end)."""
        second, last = max(-(-start // SECOND), FIRST), min(-(-end // SECOND), LAST)
        total = 0
        while second < last:
            period = self._zone.period(second)
            first = max(second + period.offset, self._earliest(period))
            total += self._cron.count(first, min(last, period.end) + period.offset)
            if second == period.start and self._fills_gap(period):
                total += self._cron.next(period.start + period.offset) != period.start + period.offset
            second = period.end
        return total

    def _earliest(self, period: Period) -> int:
        """The first wall time of a period that may fire."""
        start = period.start + period.offset
        return max(start, period.seen) if self._once else start

    def _fills_gap(self, period: Period) -> bool:
        """Whether the start of a period stands in for a local time that was left out."""
        if not self._moves or period.seen >= period.start + period.offset:
            return False
        match = self._cron.next(period.seen)
        return match is not None and match < period.start + period.offset

    def _note(self, period: Period, wall: int) -> Note | None:
        if not self._fixed:
            return None
        if wall == period.start + period.offset and self._fills_gap(period):
            return "dst_gap"
        return "dst_overlap" if wall < period.seen or wall >= period.again else None
