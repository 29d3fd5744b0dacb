"""The fires of a schedule around a moment."""

from msgspec import Struct

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.schedule.fire import Fire
from waterclock.core.domain.schedule.fires import InvalidSchedule, compile
from waterclock.proto.events import Instant
from waterclock.proto.spec import Schedule


class Around(Struct, frozen=True, kw_only=True):
    here: Instant | None
    """The fire within the second that begins at the moment."""
    previous: Instant | None
    following: Instant | None


def around(schedule: Schedule, name: str, at: Instant) -> Around:
    here = fire_at(schedule, name, at)
    try:
        fires = compile(schedule, name)
    except InvalidSchedule:
        return Around(here=None, previous=None, following=None)
    previous, following = fires.previous(at - 1), fires.at_or_after(at + SECOND)
    return Around(
        here=None if here is None else here.scheduled,
        previous=None if previous is None else previous.scheduled,
        following=None if following is None else following.scheduled,
    )


def fire_at(schedule: Schedule, name: str, at: Instant) -> Fire | None:
    """The fire in the second at `at`; None also for a schedule that can never fire."""
    try:
        fire = compile(schedule, name).at_or_after(at)
    except InvalidSchedule:
        return None
    return fire if fire is not None and fire.scheduled < at + SECOND else None
