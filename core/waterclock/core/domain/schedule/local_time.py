"""A time without an offset, as a clock on the wall shows it, and the instant it stands for.

The rule is that of a cron's fixed hour: a time that a change of the clock leaves out is the first instant after it
(`next_valid`) or none (`skip`); one that comes twice is the first of the two.
"""

from datetime import UTC, datetime, timedelta

from waterclock.core.domain.schedule.zone import TURN, Zone
from waterclock.proto.policies import DstGap


def as_instant(wall: datetime, zone: Zone, gap: DstGap = "next_valid") -> datetime | None:
    """None: there is no such time, and it is to be skipped."""
    shown = int(wall.replace(microsecond=0, tzinfo=UTC).timestamp())
    second = shown - TURN
    while True:
        period = zone.period(second)
        first, last = period.start + period.offset, period.end + period.offset
        if first <= shown < last:
            instant = datetime.fromtimestamp(shown - period.offset, UTC)
            return instant + timedelta(microseconds=wall.microsecond)
        if shown < first:
            return None if gap == "skip" else datetime.fromtimestamp(period.start, UTC)
        second = period.end
