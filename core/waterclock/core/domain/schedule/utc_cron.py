"""When a cron fires next in UTC, without compiling it.

Of a million schedules each may have a text of its own, but there are few texts for the days in them, and few for the
time of day. What each of these says is worked out once.
"""

from functools import lru_cache

from msgspec import Struct

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.schedule import cron_expression
from waterclock.core.domain.schedule.cron import Cron
from waterclock.core.domain.schedule.fire import InvalidSchedule
from waterclock.proto.events import Instant

_DAY = 86_400
_LAST_DAY = 2_500_000
"""Since 1970. Nobody asks about the end of the calendar, where only the compiled cron knows where to stop."""
_MOST_CHARACTERS = 100
"""Of a part. Two of them are surely not too long for an expression."""


class _Times(Struct, frozen=True, gc=False):
    cron: Cron
    """On every day."""
    first: int
    """Second of the day."""


class _NextDays(Struct, frozen=True, gc=False):
    first: int
    """From a day on, itself included."""
    following: int


def next_fire(expression: str, after: Instant) -> Instant | None:
    """The first fire strictly after an instant. Whoever gets one knows that the expression is valid. None: it is not
    known here, since the expression is none of five plain fields, invalid, drawn from a name, or fires no more."""
    parts = expression.split(" ", 2)
    if len(parts) != 3:
        return None
    today, second = divmod(after // SECOND + 1, _DAY)
    times, days = _times(parts[0], parts[1]), _next_days(parts[2], today)
    if times is None or days is None:
        return None
    if days.first > today:
        return (days.first * _DAY + times.first) * SECOND
    time = times.cron.next(second)
    if time is not None and time < _DAY:
        return (today * _DAY + time) * SECOND
    return (days.following * _DAY + times.first) * SECOND


@lru_cache(maxsize=4096)
def _times(minute: str, hour: str) -> _Times | None:
    cron = _parsed(f"{minute} {hour}", 2, "{} * * *")
    first = None if cron is None else cron.next(0)
    return None if cron is None or first is None else _Times(cron, first)


@lru_cache(maxsize=4096)
def _next_days(text: str, today: int) -> _NextDays | None:
    """Counted from 1970."""
    cron = _parsed(text, 3, "0 0 {}") if 0 <= today < _LAST_DAY else None
    first = None if cron is None else cron.next(today * _DAY)
    following = None if cron is None or first is None else cron.next(first + _DAY)
    return None if first is None or following is None else _NextDays(first // _DAY, following // _DAY)


def _parsed(text: str, fields: int, expression: str) -> Cron | None:
    """Some fields of an expression, in an expression of their own."""
    text = text.lower()
    if len(text) > _MOST_CHARACTERS or len(text.split()) != fields or "h" in text or "?" in text:
        return None
    try:
        return cron_expression.parse(expression.format(text), "")
    except InvalidSchedule:
        return None
