"""A cron on the wall clock of a time zone, and what becomes of it when that clock is put forward or back.

If the hour field starts with `*`, the cron follows elapsed time: it fires at every instant whose local time matches,
both passes of a repeated hour included, and nothing is moved. Otherwise the hour is fixed: a local time in a gap fires
at the first instant after it (`next_valid`; several become one) or not at all (`skip`), and a repeated one fires the
first time (`first`) or both times (`both`).
"""

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.schedule.cron import Cron
from waterclock.core.domain.schedule.fire import Fire, Note
from waterclock.core.domain.schedule.zone import FIRST, LAST, TURN, Period, Zone
from waterclock.proto.policies import DstGap, DstOverlap

_HORIZON = 42 * 31_557_600
"""A cron may match days for ever and still only ever fall into gaps; the search gives up after this."""


class ZonedCron:
    __slots__ = ("_cron", "_fixed", "_moves", "_once", "_zone", "is_sparse")

    def __init__(self, cron: Cron, zone: Zone, gap: DstGap, overlap: DstOverlap) -> None:
        self._cron = cron
        self._zone = zone
        self._fixed = not cron.wildcard_hour
        self._moves = self._fixed and gap == "next_valid"
        self._once = self._fixed and overlap == "first"
        self.is_sparse = cron.minutes.bit_count() == cron.seconds.bit_count() == 1

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
