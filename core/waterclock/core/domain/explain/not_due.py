"""The fires of a schedule around a moment, and why it does not fire at that moment."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from waterclock.core.domain.explain import wording
from waterclock.core.domain.explain.explanation import Reason
from waterclock.core.domain.explain.wording import when
from waterclock.core.domain.instants import SECOND, datetime_of, instant_of
from waterclock.core.domain.schedule.fire import Fire, Note
from waterclock.core.domain.schedule.fires import InvalidSchedule, compile
from waterclock.proto.events import Instant, JobEvent
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


_NEAR = 3 * 3600 * SECOND
"""How far from the moment a turn of the clock still explains it."""


def not_due(definition: JobEvent, at: Instant, times: Around) -> tuple[Reason, str]:
    spec, schedule = definition.spec, definition.spec.schedule
    if definition.due_now is not None:
        due = wording.moment(definition.due_now)
        return "no_schedule", f"it was due once, at {due}, when it was changed to run at once"
    if schedule.schedule_type == "DEPENDENT":
        if not spec.dependencies:
            return "no_schedule", "it has no times of its own: it runs when somebody asks for it"
        names = ", ".join(spec.dependencies)
        verb = "has" if len(spec.dependencies) == 1 else "have"
        return "no_schedule", f"it has no times of its own: it runs when {names} {verb} succeeded"
    if schedule.schedule_type == "IMMEDIATE":
        return "no_schedule", "it has no times of its own: it ran once, when it was created"
    excluded = msgspec.structs.replace(schedule, exclude=())
    if schedule.exclude and fire_at(excluded, spec.name, at) is not None:
        return "excluded", f"it would have been due, but is excluded then ({', '.join(schedule.exclude)})"
    if (bound := _bound(schedule, spec.name, at)) is not None:
        return "out_of_bounds", bound
    if (turned := _clock_turned(schedule, spec.name, at)) is not None:
        return turned
    return "not_due", _between(schedule, times)


def _bound(schedule: Schedule, name: str, at: Instant) -> str | None:
    free = msgspec.structs.replace(schedule, start_at=None, end_at=None)
    if schedule.schedule_type == "INTERVAL":
        free = msgspec.structs.replace(schedule, end_at=None)
    if schedule.start_at is not None and at < instant_of(schedule.start_at):
        return f"its schedule starts only at {wording.moment(instant_of(schedule.start_at))}"
    if schedule.end_at is not None and at >= instant_of(schedule.end_at):
        would = "it would have been due, but its" if fire_at(free, name, at) is not None else "its"
        return f"{would} schedule ended at {wording.moment(instant_of(schedule.end_at))}"
    return None


def _clock_turned(schedule: Schedule, name: str, at: Instant) -> tuple[Reason, str] | None:
    """Whether daylight saving has moved or left out a fire nearby."""
    if schedule.schedule_type != "CRON":
        return None
    zone, local = schedule.timezone, _local(schedule, at)
    both = msgspec.structs.replace(schedule, dst_overlap="both")
    if schedule.dst_overlap == "first" and fire_at(both, name, at) is not None:
        first = _noted(schedule, name, at, "dst_overlap")
        fired = "" if first is None else f", at {wording.moment(first)}"
        return (
            "dst_overlap",
            f"{local} comes twice that day in {zone}, and dst_overlap is first: it fired the first time{fired}",
        )
    moved = msgspec.structs.replace(schedule, dst_gap="next_valid")
    gap = _noted(moved, name, at, "dst_gap")
    if gap is None:
        return None
    if schedule.dst_gap == "skip":
        return "dst_gap", f"its local time did not exist that day in {zone}, and dst_gap is skip"
    return (
        "dst_gap",
        f"its local time did not exist that day in {zone}: it fired at the first instant after, {wording.moment(gap)}",
    )


def _noted(schedule: Schedule, name: str, at: Instant, note: Note) -> Instant | None:
    """A fire close by that daylight saving had a say in."""
    try:
        near = compile(schedule, name).between(at - _NEAR, at + _NEAR, 500)
    except InvalidSchedule:
        return None
    found = [fire.scheduled for fire in near if fire.note == note]
    return min(found, key=lambda scheduled: abs(scheduled - at), default=None)


def _between(schedule: Schedule, times: Around) -> str:
    parts = [f"it was not due then ({when(schedule)})"]
    if times.previous is not None:
        parts.append(f"the fire before is at {wording.moment(times.previous)}")
    parts.append(
        "it does not fire again"
        if times.following is None
        else f"the next at {wording.moment(times.following)}"
    )
    return "; ".join(parts)


def _local(schedule: Schedule, at: Instant) -> str:
    local = datetime_of(at).astimezone(ZoneInfo(schedule.timezone))
    return (local - timedelta(microseconds=local.microsecond)).strftime("%H:%M:%S")
