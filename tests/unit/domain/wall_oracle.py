"""An independent reading of the contract's rule for schedules, by walking every step of UTC. Slow, and plain."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo


@dataclass(frozen=True)
class Fields:
    """What a cron says, as plain sets; None is a star. Weekdays count from Sunday."""

    seconds: frozenset[int] = frozenset({0})
    minutes: frozenset[int] | None = None
    hours: frozenset[int] | None = None
    wildcard_hour: bool = True
    days: frozenset[int] | None = None
    months: frozenset[int] | None = None
    weekdays: frozenset[int] | None = None

    def match(self, local: datetime) -> bool:
        day = self.days is None or local.day in self.days
        weekday = self.weekdays is None or (local.weekday() + 1) % 7 in self.weekdays
        both = self.days is not None and self.weekdays is not None
        return (
            local.second in self.seconds
            and (self.minutes is None or local.minute in self.minutes)
            and (self.hours is None or local.hour in self.hours)
            and (self.months is None or local.month in self.months)
            and (day or weekday if both else day and weekday)
        )


def wall(second: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(second, zone).replace(tzinfo=None, fold=0)


def expected(
    fields: Fields, key: str, gap: str, overlap: str, start: int, end: int, *, step: int, around: int
) -> list[int]:
    """The fires in [start, end), all in seconds. `step` divides every offset and every fire; `around` is longer than
    the gap or overlap near by."""
    zone = ZoneInfo(key)
    first, last = start - around - (start - around) % step, end + around
    shown = [(second, wall(second, zone)) for second in range(first, last, step)]
    if fields.wildcard_hour:
        fires = {second for second, local in shown if fields.match(local)}
    else:
        fires = _fixed_hour(fields, shown, gap, overlap, step)
    return sorted(second for second in fires if start <= second < end)


def _fixed_hour(
    fields: Fields, shown: list[tuple[int, datetime]], gap: str, overlap: str, step: int
) -> set[int]:
    instants: dict[datetime, list[int]] = {}
    for second, local in shown:
        instants.setdefault(local, []).append(second)
    fires: set[int] = set()
    local = shown[0][1]
    while local <= shown[-1][1]:
        if fields.match(local):
            if local in instants:
                fires.update(instants[local] if overlap == "both" else instants[local][:1])
            elif gap == "next_valid":
                fires.add(next(second for second, there in shown if there > local))
        local += timedelta(seconds=step)
    return fires


def seconds(text: str) -> int:
    time = datetime.fromisoformat(text)
    assert time.tzinfo is not None
    return int(time.astimezone(UTC).timestamp())
