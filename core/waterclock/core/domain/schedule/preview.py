"""The next fires of a schedule, as a person reads them."""

from zoneinfo import ZoneInfo

from msgspec import Struct

from waterclock.core.domain.instants import datetime_of, rfc3339
from waterclock.core.domain.schedule.fire import Fire, Note
from waterclock.core.domain.schedule.fires import compile
from waterclock.proto.spec import Schedule


class FireView(Struct, frozen=True, kw_only=True):
    time: str
    """RFC 3339 in UTC."""
    local: str
    """The same instant on the schedule's wall clock, with its offset."""
    note: Note | None


def preview(schedule: Schedule, name: str, start: int, n: int) -> list[FireView]:
    """The first `n` fires from `start` on, itself included; never more than `max_fires`."""
    fires = compile(schedule, name)
    if schedule.max_fires is not None:
        n = min(n, schedule.max_fires)
    found: list[Fire] = []
    fire = Fire(start) if schedule.schedule_type == "IMMEDIATE" else fires.at_or_after(start)
    while fire is not None and len(found) < n:
        found.append(fire)
        fire = fires.after(fire.scheduled)
    place = ZoneInfo(schedule.timezone)
    return [
        FireView(
            time=rfc3339(fire.scheduled),
            local=datetime_of(fire.scheduled).astimezone(place).isoformat(),
            note=fire.note,
        )
        for fire in found
    ]
