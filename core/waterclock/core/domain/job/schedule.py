"""When a job fires, from the many ways to say it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET

from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.core.domain.job import durations
from waterclock.core.domain.job.request_fields import value_of, value_or
from waterclock.core.domain.job.validate import Problems
from waterclock.core.domain.schedule import cron_expression, exclusions
from waterclock.core.domain.schedule.fire import InvalidSchedule
from waterclock.core.domain.schedule.fires import SHORTEST_INTERVAL, compile
from waterclock.core.domain.schedule.local_time import as_instant
from waterclock.core.domain.schedule.zone import zone
from waterclock.proto.policies import DstGap, ScheduleType
from waterclock.proto.spec import Handler, JobRequest, JobSpec, PreviewRequest, Schedule

WHEN = ("schedule", "schedule_time", "delay", "cron_expression", "cron", "every", "interval_seconds")
"""The fields of which one says when; an edit that says one of them replaces what was said before."""

_EVERY = re.compile(r"every\s+(?P<duration>.+)", re.IGNORECASE)
_LOOKS_LIKE_A_TIME = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_NEEDS: dict[ScheduleType, str] = {
    "IMMEDIATE": "nothing else",
    "FUTURE": "schedule_time",
    "CRON": "cron_expression",
    "INTERVAL": "interval_seconds or every",
    "DEPENDENT": "dependencies",
}
SCHEDULE_FIELDS = tuple(sorted({*WHEN, *Schedule.__struct_fields__}))
"""All that a request says of its schedule."""
_UNSAID: dict[ScheduleType, Schedule] = {
    "IMMEDIATE": JobSpec(name="", task=Handler(handler="")).schedule,
    "DEPENDENT": Schedule(schedule_type="DEPENDENT"),
}
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


_MAY_SAY_NOW = ("schedule", "schedule_type")
_ONLY_CRON = [{field, *more} for field in ("cron", "cron_expression") for more in ((), ("timezone",))]
_SAY_MORE = tuple(dict.fromkeys(field for field in (*WHEN, *SCHEDULE_FIELDS) if field not in _MAY_SAY_NOW))
"""Those that are said most often first."""


class _When(msgspec.Struct, frozen=True):
    """What one of the fields above comes to; `field` is where a complaint belongs."""

    field: str
    schedule_type: ScheduleType
    time: datetime | None = None
    crons: tuple[str, ...] = ()
    seconds: float | None = None
    zone: str | None = None
    """Said inside the expressions, as `CRON_TZ=`."""


def schedule_of(
    request: JobRequest | PreviewRequest, name: str, now: int, unsaid: ScheduleType, problems: Problems
) -> Schedule:
    """The schedule a request describes; of the type `unsaid` if it does not say when."""
    said = {field: value for field in SCHEDULE_FIELDS if (value := getattr(request, field)) is not UNSET}
    if not said:
        return _UNSAID[unsaid]
    if (plain := plain_schedule(said, name)) is not None:
        return plain
    before = len(problems)
    when = _when(request, now, unsaid, problems)
    _check_type(value_of(request.schedule_type), when, problems)
    clock = _Clock(
        _timezone(value_of(request.timezone), when, problems), value_or(request.dst_gap, "next_valid")
    )
    schedule = Schedule(
        schedule_type=when.schedule_type,
        schedule_time=clock.moment(when.field, when.time, problems),
        cron_expression=when.crons,
        interval_seconds=when.seconds,
        timezone=clock.timezone,
        start_at=clock.moment("start_at", value_of(request.start_at), problems),
        end_at=clock.moment("end_at", value_of(request.end_at), problems),
        jitter_seconds=value_or(request.jitter_seconds, 0),
        max_fires=value_of(request.max_fires),
        dst_gap=clock.gap,
        dst_overlap=value_or(request.dst_overlap, "first"),
        exclude=tuple(value_or(request.exclude, [])),
    )
    _check_parts(schedule, when, name, problems)
    if len(problems) == before:
        try:
            compile(schedule, name)
        except InvalidSchedule as error:
            problems.add(error.field, error.reason)
    return schedule


def plain_schedule(said: Mapping[str, Any], name: str) -> Schedule | None:
    """The schedule of which nothing is said but an instant, or a cron and perhaps its zone: most are such. None if
    there is more in it, or may be something wrong with it."""
    if len(said) == 1 and "schedule_time" in said:
        time = said["schedule_time"]
        if not isinstance(time, datetime) or time.tzinfo is None or not _EARLIEST <= time < _LATEST:
            return None
        return Schedule(schedule_type="FUTURE", schedule_time=time.astimezone(UTC))
    if said.keys() not in _ONLY_CRON:
        return None
    text, place = said.get("cron", said.get("cron_expression")), said.get("timezone", "UTC")
    if not isinstance(text, str) or place is None or "=" in text or "@" in text:
        return None
    schedule = Schedule(schedule_type="CRON", cron_expression=(text.strip(),), timezone=place)
    try:
        cron_expression.check(schedule.cron_expression[0], name)
        compile(schedule, name)
    except InvalidSchedule:
        return None
    return schedule


def says_only_now(request: JobRequest | PreviewRequest) -> bool:
    """Whether all that is said of its schedule is that it runs at once, if anything. Never true of what is wrong."""
    return (
        (request.schedule is UNSET or request.schedule == "now")
        and (request.schedule_type is UNSET or request.schedule_type == "IMMEDIATE")
        and all(getattr(request, field) is UNSET for field in _SAY_MORE)
    )


def check_future(schedule: Schedule, name: str, now: int, problems: Problems) -> None:
    """A recurring schedule that is over before it begins is refused; a one-shot in the past fires at once."""
    if problems or schedule.schedule_type not in ("CRON", "INTERVAL"):
        return
    if compile(schedule, name).at_or_after(now) is None:
        over = schedule.end_at is not None and schedule.end_at <= datetime_of(now)
        reason = "is in the past" if over else "leaves nothing to fire"
        problems.add("end_at" if schedule.end_at else "schedule", f"can never fire: it {reason}")


def _when(request: JobRequest | PreviewRequest, now: int, unsaid: ScheduleType, problems: Problems) -> _When:
    given = {field: value for field in WHEN if (value := value_of(getattr(request, field))) is not None}
    if not given:
        return _When("schedule_type", "IMMEDIATE" if request.schedule_type == "IMMEDIATE" else unsaid)
    first, *others = given
    for other in others:
        problems.add(other, f"cannot be combined with {first}: both say when")
    return _read(first, given[first], now, problems)


def _read(field: str, value: Any, now: int, problems: Problems) -> _When:
    match field:
        case "schedule":
            return _from_text(value.strip(), now, problems)
        case "schedule_time":
            return _When(field, "FUTURE", time=value)
        case "delay":
            wait = _duration(field, value, problems)
            return _When(field, "FUTURE", time=datetime_of(now + wait))
        case "cron_expression" | "cron":
            return _from_crons(field, (value,) if isinstance(value, str) else tuple(value), problems)
        case _:
            return _When(field, "INTERVAL", seconds=_duration(field, value, problems) / SECOND)


def _from_text(text: str, now: int, problems: Problems) -> _When:
    """`schedule`: a cron, an instant, `every 30s`, or `now`."""
    if text.lower() == "now":
        return _When("schedule", "IMMEDIATE")
    if every := _EVERY.fullmatch(text):
        return _When(
            "schedule", "INTERVAL", seconds=_duration("schedule", every["duration"], problems) / SECOND
        )
    if _LOOKS_LIKE_A_TIME.match(text):
        return _When("schedule", "FUTURE", time=_instant(text, now, problems))
    return _from_crons("schedule", (text,), problems)


def _from_crons(field: str, texts: tuple[str, ...], problems: Problems) -> _When:
    """Expressions, with what they say beside their fields taken out: their zone, and an interval."""
    found = [cron_expression.unwrap(text) for text in texts]
    zones = list(dict.fromkeys(one.zone for one in found))
    if len(zones) > 1:
        problems.add(
            field, "the expressions of a job have one zone: all of them say the same CRON_TZ, or none"
        )
    every = [one.every for one in found if one.every is not None]
    if len(found) > 1 and every:
        problems.add(field, f"'@every {every[0]}' stands alone; it cannot be one of several expressions")
        found = [one for one in found if one.every is None]
    elif every:
        seconds = _duration(field, every[0], problems) / SECOND
        return _When(field, "INTERVAL", seconds=seconds, zone=zones[0])
    return _When(field, "CRON", crons=tuple(one.cron for one in found), zone=zones[0])


def _timezone(said: str | None, when: _When, problems: Problems) -> str:
    if when.zone is not None and said not in (None, when.zone):
        problems.add(when.field, f"says CRON_TZ={when.zone}, and timezone says {said}")
    return when.zone if when.zone is not None else said or "UTC"


def _instant(text: str, now: int, problems: Problems) -> datetime:
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        problems.add("schedule", f"'{text}' is not an RFC 3339 time such as 2026-12-31T23:59:59Z")
        return datetime_of(now)


def _duration(field: str, value: str | float, problems: Problems) -> int:
    """Microseconds; a second where there is something to complain about."""
    try:
        return durations.read(value)
    except durations.InvalidDuration as error:
        problems.add(field, str(error))
        return SECOND


class _Clock(msgspec.Struct, frozen=True):
    """The clock on which a time without an offset is read: that of the schedule's own zone."""

    timezone: str
    gap: DstGap

    def moment(self, field: str, time: datetime | None, problems: Problems) -> datetime | None:
        if time is None:
            return None
        if not _EARLIEST <= (time if time.tzinfo else time.replace(tzinfo=UTC)) < _LATEST:
            problems.add(field, "must be between the years 1970 and 9000")
            return None
        if time.tzinfo:
            return time.astimezone(UTC)
        place = zone(self.timezone)
        if place is None:
            return None  # that is complained about where it is checked
        instant = as_instant(time, place, self.gap)
        if instant is None:
            problems.add(field, f"there is no such time in {self.timezone}, where the clocks are put forward")
        return instant


def _check_type(wanted: ScheduleType | None, when: _When, problems: Problems) -> None:
    if wanted is None or wanted == when.schedule_type or any(problems.has(field) for field in WHEN):
        return
    if wanted == "CRON" and when.schedule_type == "INTERVAL" and when.field in ("cron", "cron_expression"):
        return  # `@every 90s`
    if when.field == "schedule_type":
        problems.add("schedule_type", f"{wanted} needs {_NEEDS[wanted]}")
    else:
        problems.add("schedule_type", f"is {wanted}, but {when.field} makes it {when.schedule_type}")


def _check_parts(schedule: Schedule, when: _When, name: str, problems: Problems) -> None:
    """All that is wrong with a schedule, and not only the first thing."""
    place = zone(schedule.timezone)
    if place is None:
        problems.add(
            "timezone" if when.zone is None else when.field,
            f"there is no time zone '{schedule.timezone}'; expected an IANA name: Europe/Paris",
        )
    else:
        try:
            exclusions.parse(schedule.exclude, place)
        except InvalidSchedule as error:
            problems.add(error.field, error.reason)
    for text in schedule.cron_expression:
        try:
            cron_expression.check(text, name)
        except InvalidSchedule as error:
            problems.add(when.field, error.reason)
    if schedule.interval_seconds is not None and schedule.interval_seconds < SHORTEST_INTERVAL:
        problems.add(when.field, "an interval must be at least one second")
