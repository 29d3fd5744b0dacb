"""Two schedules side by side: what fires by the one and not by the other, from a moment on."""

from collections.abc import Iterable

from msgspec import Struct

from waterclock.core.domain.schedule.fire import Fire
from waterclock.core.domain.schedule.fires import FireView, compile, shown
from waterclock.proto.events import Instant
from waterclock.proto.spec import Schedule

MOST_FIRES = 1_000
"""Of either schedule. Where there are more, both are shown up to the same instant."""


class Outlook(Struct, frozen=True, kw_only=True):
    """A job's schedule, and what it has left to fire."""

    schedule: Schedule
    name: str
    """The job's, which `H` is drawn from."""
    at_once: Instant | None = None
    """When it is due because it was told so. Then no clock has a say."""
    left: int | None = None
    """How many of its `max_fires` it may still take; None: it has no such limit."""
    is_over: bool = False
    """It will not fire again."""
    skipped: frozenset[Instant] = frozenset()
    """Times that are to be left out. They are shown, but take nothing of what is left."""


class Comparison(Struct, frozen=True, kw_only=True):
    before: list[FireView]
    after: list[FireView]
    added: int
    removed: int
    end: Instant
    """How far it reaches."""
    more: bool
    """There is more between that and the end that was asked for."""


def compare(before: Outlook, after: Outlook, now: Instant, start: Instant, end: Instant) -> Comparison:
    """The fires of both in [start, end)."""
    old, new = (_fires(outlook, now, start, end) for outlook in (before, after))
    beyond = [fires[MOST_FIRES].scheduled for fires in (old, new) if len(fires) > MOST_FIRES]
    reached = min(beyond, default=end)
    old, new = (_until(reached, fires) for fires in (old, new))
    old_times, new_times = ({fire.scheduled for fire in fires} for fires in (old, new))
    return Comparison(
        before=shown(old, before.schedule),
        after=shown(new, after.schedule),
        added=len(new_times - old_times),
        removed=len(old_times - new_times),
        end=reached,
        more=bool(beyond),
    )


def _fires(outlook: Outlook, now: Instant, start: Instant, end: Instant) -> list[Fire]:
    """One more than are shown, if there are so many."""
    if outlook.is_over:
        return []
    if outlook.at_once is not None:
        return [Fire(outlook.at_once)] if start <= outlook.at_once < end else []
    fires = compile(outlook.schedule, outlook.name)
    most = MOST_FIRES + 1
    if outlook.left is None:
        return fires.between(start, end, most)
    skipped = outlook.skipped
    passed = fires.count_between(now, start, limit=outlook.left + len(skipped)) if now < start else 0
    left = outlook.left - passed + sum(now <= time < start for time in skipped)
    return _taken(fires.between(start, end, min(most, max(0, left + len(skipped)))), left, skipped)


def _taken(fires: Iterable[Fire], left: int, skipped: frozenset[Instant]) -> list[Fire]:
    found: list[Fire] = []
    for fire in fires:
        if left <= 0:
            break
        left -= fire.scheduled not in skipped
        found.append(fire)
    return found


def _until(end: Instant, fires: Iterable[Fire]) -> list[Fire]:
    return [fire for fire in fires if fire.scheduled < end]
