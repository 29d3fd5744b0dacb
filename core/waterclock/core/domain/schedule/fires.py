"""All the fires of a schedule, in either direction from any instant; and the next few as a person reads them."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, assert_never
from zoneinfo import ZoneInfo

from msgspec import Struct

from waterclock.core.domain.ids import fraction
from waterclock.core.domain.instants import SECOND, datetime_of, instant_of, rfc3339
from waterclock.core.domain.schedule import cron_expression, exclusions, utc_cron
from waterclock.core.domain.schedule.daylight_saving import ZonedCron
from waterclock.core.domain.schedule.exclusions import Exclusions
from waterclock.core.domain.schedule.fire import Fire, InvalidSchedule, Note
from waterclock.core.domain.schedule.zone import FIRST, LAST, Zone, zone
from waterclock.proto.events import Instant
from waterclock.proto.policies import DstGap, DstOverlap
from waterclock.proto.spec import Schedule

_SPARSE = 3_600 * SECOND


class Interval:
    """Fires when (t - anchor) mod every = 0, whoever evaluates it and whenever: there is no last run in it."""

    __slots__ = ("_anchor", "_every", "is_sparse")

    def __init__(self, every: int, anchor: int) -> None:
        self._every = every
        self._anchor = anchor
        self.is_sparse = every >= _SPARSE

    def at_or_after(self, instant: int) -> Fire | None:
        return Fire(instant + (self._anchor - instant) % self._every)

    def at_or_before(self, instant: int) -> Fire | None:
        return Fire(instant - (instant - self._anchor) % self._every)

    def count(self, start: int, end: int) -> int:
        first = start + (self._anchor - start) % self._every
        return max(0, -((first - end) // self._every))


class Once:
    __slots__ = ("_fire",)
    is_sparse = True

    def __init__(self, instant: int) -> None:
        self._fire = Fire(instant)

    def at_or_after(self, instant: int) -> Fire | None:
        return self._fire if instant <= self._fire.scheduled else None

    def at_or_before(self, instant: int) -> Fire | None:
        return self._fire if instant >= self._fire.scheduled else None

    def count(self, start: int, end: int) -> int:
        return int(start <= self._fire.scheduled < end)


__all__ = ["Fire", "Fires", "InvalidSchedule", "compile", "jittered"]

SHORTEST_INTERVAL = 1.0


class Source(Protocol):
    """One of the things a schedule is made of: a cron, an interval, an instant."""

    @property
    def is_sparse(self) -> bool:
        """Whether it fires at most once in an hour, but for when clocks are changed."""

    def at_or_after(self, instant: int) -> Fire | None: ...

    def at_or_before(self, instant: int) -> Fire | None: ...

    def count(self, start: int, end: int) -> int: ...


class Fires:
    """What the sources fire together, without doubles, within [start, end) and outside the exclusions.

    The answer depends on the schedule and the instant asked about, never on what was asked before. The last one is
    remembered, as it is the answer for all instants up to the fire: whoever defines a job asks several times.
    """

    __slots__ = ("_end", "_excluded", "_last_answer", "_sources", "_start", "is_sparse")

    def __init__(self, sources: tuple[Source, ...], start: int, end: int, excluded: Exclusions) -> None:
        self._sources = sources
        self._start = start
        self._end = end
        self._excluded = excluded
        self._last_answer: tuple[int, Fire] | None = None
        self.is_sparse = len(sources) == 1 and sources[0].is_sparse
        """Fires at most once in an hour, but for when clocks are changed."""

    def after(self, instant: int) -> Fire | None:
        """The first fire strictly after an instant; None: never again."""
        return self.at_or_after(instant + 1)

    def at_or_after(self, instant: int) -> Fire | None:
        instant = asked = max(instant, self._start)
        known = self._last_answer
        if known is not None and known[0] <= instant <= known[1].scheduled:
            return known[1]
        while (fire := self._next(instant)) is not None and fire.scheduled < self._end:
            window = self._excluded.around(fire.scheduled)
            if window is None:
                self._last_answer = (asked, fire)
                return fire
            instant = window[1]
        return None

    def previous(self, instant: int) -> Fire | None:
        """The last fire at or before an instant."""
        instant = min(instant, self._end - 1)
        while (fire := self._last(instant)) is not None and fire.scheduled >= self._start:
            window = self._excluded.around(fire.scheduled)
            if window is None:
                return fire
            instant = window[0] - 1
        return None

    def between(self, start: int, end: int, limit: int | None = None) -> list[Fire]:
        """The fires in [start, end), in order; at most `limit`."""
        fires: list[Fire] = []
        fire = self.at_or_after(start)
        while fire is not None and fire.scheduled < end and (limit is None or len(fires) < limit):
            fires.append(fire)
            fire = self.at_or_after(fire.scheduled + 1)
        return fires

    def count_between(self, start: int, end: int, limit: int | None = None) -> int:
        """How many fires lie in [start, end), counted up to `limit`.

        Arithmetic where one cron or interval stands alone; else they are walked, and a limit keeps that short.
        """
        if len(self._sources) == 1 and not self._excluded:
            start, end = max(start, self._start), min(end, self._end)
            count = self._sources[0].count(start, end) if start < end else 0
            return count if limit is None else min(count, limit)
        return len(self.between(start, end, limit))

    def _next(self, instant: int) -> Fire | None:
        best: Fire | None = None
        for source in self._sources:
            fire = source.at_or_after(instant)
            if fire is not None and (
                best is None or fire.scheduled < best.scheduled or _tells_more(fire, best)
            ):
                best = fire
        return best

    def _last(self, instant: int) -> Fire | None:
        best: Fire | None = None
        for source in self._sources:
            fire = source.at_or_before(instant)
            if fire is not None and (
                best is None or fire.scheduled > best.scheduled or _tells_more(fire, best)
            ):
                best = fire
        return best


def compile(schedule: Schedule, name: str) -> Fires:
    """The fires of a schedule; `name` is the job's, which `H` is drawn from.

    Refuses what cannot be meant, a schedule that can never fire included. `max_fires` is not applied: it counts the
    fires that were taken. An immediate job fires when it is accepted and a dependent one when its dependencies
    ended: of neither does the schedule know the time, so both are without fires here.
    """
    text = only_cron(schedule)
    if text is not None:
        name = name if _is_hashed(text) else ""
        return _of_one_cron(text, schedule.timezone, schedule.dst_gap, schedule.dst_overlap, name)
    return _compile(schedule, name if any(map(_is_hashed, schedule.cron_expression)) else "")


def counts_from(schedule: Schedule, accepted: Instant) -> Instant:
    """The fires after this instant count for a definition that was accepted then: a one-shot whose time had passed
    already still fires."""
    time = schedule.schedule_time
    return accepted if time is None else min(accepted, instant_of(time) - 1)


def is_over(schedule: Schedule, now: Instant) -> bool:
    """Whether a schedule names one instant, which has come: a job that is given it is due at once."""
    if schedule.schedule_type == "IMMEDIATE":
        return True
    time = schedule.schedule_time
    return schedule.schedule_type == "FUTURE" and time is not None and instant_of(time) <= now


def only_time(schedule: Schedule) -> Instant | None:
    """When a one-shot fires, where nothing but its time says so. None: its schedule has to be compiled."""
    time = schedule.schedule_time
    if (
        time is None
        or schedule.schedule_type != "FUTURE"
        or schedule.start_at is not None
        or schedule.end_at is not None
        or schedule.exclude
    ):
        return None
    return instant_of(time)


def only_cron(schedule: Schedule) -> str | None:
    """The expression of a schedule whose fires are those of one cron, and all of them. None: there is more to it."""
    expressions = schedule.cron_expression
    if (
        len(expressions) != 1
        or schedule.schedule_type != "CRON"
        or schedule.start_at is not None
        or schedule.end_at is not None
        or schedule.exclude
    ):
        return None
    return expressions[0]


def next_fire(schedule: Schedule, name: str, after: Instant) -> Instant | None:
    """The first fire strictly after an instant; None if there is none, or if no clock decides it."""
    only = only_time(schedule)
    if only is not None:
        return only if only > after else None
    text = only_cron(schedule) if schedule.timezone == "UTC" else None
    known = None if text is None else utc_cron.next_fire(text, after)
    if known is not None:
        return known
    fire = compile(schedule, name).after(after)
    return None if fire is None else fire.scheduled


def is_recurring(schedule: Schedule) -> bool:
    return schedule.schedule_type == "CRON" or schedule.schedule_type == "INTERVAL"


def is_plainly_sparse(schedule: Schedule) -> bool:
    """Whether one can see without compiling it that a schedule fires at most once in an hour, but for when clocks are
    changed: a cron of one minute."""
    expressions = schedule.cron_expression
    if len(expressions) != 1:
        return False
    minute, *others = expressions[0].split(" ")
    return minute.isdecimal() and len(others) == 4


def jittered(schedule: Schedule, run_id: str, scheduled: int, next_scheduled: int | None) -> int:
    """When a run is due: up to `jitter_seconds` late, the same for the same run, and before the next one is due."""
    span = int(schedule.jitter_seconds * SECOND)
    if next_scheduled is not None:
        span = min(span, next_scheduled - scheduled)
    return scheduled + int(fraction("jitter", run_id) * span) if span > 0 else scheduled


@lru_cache(maxsize=16_384)
def _of_one_cron(text: str, timezone: str, gap: DstGap, overlap: DstOverlap, name: str) -> Fires:
    """What nearly all recurring schedules are. To look them up by these texts costs a third of what it costs by all
    that a schedule may say. There is room for every minute of a day and of a week, which is what most of a million
    schedules say."""
    cron = ZonedCron(cron_expression.parse(text, name), _existing(timezone), gap, overlap)
    return Fires((cron,), FIRST * SECOND, LAST * SECOND, exclusions.NOTHING)


@lru_cache(maxsize=4096)
def _compile(schedule: Schedule, name: str) -> Fires:
    place = _existing(schedule.timezone)
    start = FIRST * SECOND if schedule.start_at is None else instant_of(schedule.start_at)
    end = LAST * SECOND if schedule.end_at is None else instant_of(schedule.end_at)
    if end <= start:
        raise InvalidSchedule("end_at", "must be after start_at")
    sources = _sources(schedule, place, name)
    fires = Fires(sources, start, end, exclusions.parse(schedule.exclude, place))
    bounds = [field for field in ("end_at", "exclude", "start_at") if getattr(schedule, field)]
    if sources and bounds and fires.at_or_after(start) is None:
        raise InvalidSchedule(bounds[0], "can never fire: nothing is due between start_at and end_at")
    return fires


def _is_hashed(expression: str) -> bool:
    return "h" in expression or "H" in expression


def _existing(timezone: str) -> Zone:
    place = zone(timezone)
    if place is None:
        raise InvalidSchedule("timezone", f"there is no time zone '{timezone}' (IANA names: Europe/Paris)")
    return place


def _sources(schedule: Schedule, place: Zone, name: str) -> tuple[Source, ...]:
    match schedule.schedule_type:
        case "CRON":
            if not schedule.cron_expression:
                raise InvalidSchedule("cron_expression", "missing")
            return tuple(
                ZonedCron(cron_expression.parse(text, name), place, schedule.dst_gap, schedule.dst_overlap)
                for text in dict.fromkeys(schedule.cron_expression)
            )
        case "INTERVAL":
            every = schedule.interval_seconds
            if every is None or not SHORTEST_INTERVAL <= every <= (LAST - FIRST):
                raise InvalidSchedule("interval_seconds", "must be at least one second")
            anchor = 0 if schedule.start_at is None else instant_of(schedule.start_at)
            return (Interval(round(every * SECOND), anchor),)
        case "FUTURE":
            if schedule.schedule_time is None:
                raise InvalidSchedule("schedule_time", "missing")
            return (Once(instant_of(schedule.schedule_time)),)
        case "IMMEDIATE" | "DEPENDENT":
            return ()
        case _:
            assert_never(schedule.schedule_type)


def _tells_more(fire: Fire, best: Fire) -> bool:
    return fire.scheduled == best.scheduled and best.note is None


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
    return shown(found, schedule)


def shown(fires: Iterable[Fire], schedule: Schedule) -> list[FireView]:
    place = ZoneInfo(schedule.timezone)
    return [
        FireView(
            time=rfc3339(fire.scheduled),
            local=datetime_of(fire.scheduled).astimezone(place).isoformat(),
            note=fire.note,
        )
        for fire in fires
    ]
