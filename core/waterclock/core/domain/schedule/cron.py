"""A cron expression as sets of wall-clock values: when does it match next, when did it last, and how often?

It knows a naive clock: seconds since 1970-01-01T00:00:00 of one that is never put forward or back. What becomes of it
where clocks are is in `daylight_saving`.
"""

from datetime import date

from msgspec import Struct

from waterclock.core.domain.schedule.days import Days, highest, lowest

_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()


class Cron(Struct, frozen=True, gc=False):
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
