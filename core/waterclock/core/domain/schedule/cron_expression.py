"""The text of a cron expression. croniter knows the values of a field; what surrounds them is decided here.

Each element of each field is expanded by itself, so that an error can name it and one field's stars never change
the reading of another. Beyond croniter: names such as `@daily` mean the plain time also where `H` is in use; `H`
is drawn from the job's name within the field's bounds; Sunday is 0 or 7 with seconds too; `9-9` is 9 and not the
whole cycle; `MON#2,FRI` may be mixed; the last Friday is `L5`, `5L` or `FRIL`; `15W` and `LW` are the nearest day from
Monday to Friday; a weekday field that starts with `+` must match as well as the day. Years and `R` are refused.

`unwrap` takes apart what is more than a cron: `CRON_TZ=Europe/Paris 0 3 * * *` and `@every 90s`.
"""

import re
from functools import lru_cache
from typing import NoReturn

from croniter import croniter
from msgspec import Struct

from waterclock.core.domain.ids import fraction
from waterclock.core.domain.schedule.cron import Cron
from waterclock.core.domain.schedule.days import Days
from waterclock.core.domain.schedule.fire import InvalidSchedule

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MAX_LENGTH = 256

_EVERY_MONTH = (2 << 28) - 2
"""The days that every month has."""
_WEEKDAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_VALUE = r"\d{1,2}|[a-z]{3}"
_PLAIN = re.compile(rf"\*(/\d+)?|\?|(?P<low>{_VALUE})(-(?P<high>{_VALUE}|l))?(?P<step>/\d+)?", re.ASCII)
_HASHED = re.compile(r"h(\((?P<low>\d+)-(?P<high>\d+)\))?(/(?P<step>\d+))?")
_NTH = re.compile(r"(?P<weekday>[0-7]|[a-z]{3})#(?P<nth>[1-5])")
_NEAREST = re.compile(r"(?P<day>\d{1,2}|l)w", re.ASCII)
_ZONED = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S*)\s+(?P<rest>.*)", re.DOTALL)
_EVERY = re.compile(r"@every\s+(?P<duration>.+)", re.IGNORECASE | re.DOTALL)
_LAST = re.compile(r"l(?P<after>[0-7]|[a-z]{3})|(?P<before>[0-7]|[a-z]{3})l")


class _Field(Struct, frozen=True, cache_hash=True):
    name: str
    position: int
    """Where croniter has it; seconds are read as minutes are."""
    low: int
    high: int
    hashed_high: int
    """`H` stays below the days that not every month has."""
    last_name: str = ""


_SECOND = _Field("second", 0, 0, 59, 59)
_MINUTE = _Field("minute", 0, 0, 59, 59)
_HOUR = _Field("hour", 1, 0, 23, 23)
_DAY = _Field("day", 2, 1, 31, 28)
_MONTH = _Field("month", 3, 1, 12, 12, "dec")
_WEEKDAY = _Field("weekday", 4, 0, 6, 6, "sat")


class Unwrapped(Struct, frozen=True):
    """What one expression says beside its fields."""

    cron: str
    zone: str | None = None
    every: str | None = None
    """The duration of an `@every`; there is no cron then."""


def unwrap(expression: str) -> Unwrapped:
    """Takes `CRON_TZ=`, `TZ=` and `@every` off an expression; what they say is checked by whoever reads it."""
    text, place = expression.strip(), None
    if zoned := _ZONED.fullmatch(text):
        text, place = zoned["rest"].strip(), zoned["zone"]
    every = _EVERY.fullmatch(text)
    return Unwrapped(cron=text, zone=place, every=every["duration"].strip() if every else None)


def check(expression: str, name: str) -> None:
    """Refuses what cannot be parsed, and `?` in a list: it says that nothing is said. (What is stored may have it.)"""
    parse(expression, name)
    for field in expression.split() if "?" in expression else ():
        if "?" in field.split(",") and field != "?":
            raise InvalidSchedule("cron_expression", f"'{field}': ? stands alone")


def parse(expression: str, name: str) -> Cron:
    """The cron an expression stands for; `name` is what `H` is drawn from."""
    text = expression.strip().lower()
    return _parse(text, name if "h" in text else "")


@lru_cache(maxsize=4096)
def _parse(text: str, name: str) -> Cron:
    fields = _fields(text)
    seconds = _values(_SECOND, fields[0], name) if len(fields) == 6 else 1
    minute, hour, day, month, weekday = fields[-5:]
    days = _days(day, month, weekday, name)
    cron = Cron(
        days=days,
        hours=_values(_HOUR, hour, name),
        minutes=_values(_MINUTE, minute, name),
        seconds=seconds,
        wildcard_hour=hour.startswith("*"),
    )
    if not days.month_days & _EVERY_MONTH and cron.next(0) is None:
        raise InvalidSchedule("cron_expression", f"'{text}' can never fire: no month has such a day")
    return cron


@lru_cache(maxsize=4096)
def _days(day: str, month: str, weekday: str, name: str) -> Days:
    """Far fewer than there are schedules: what is said of the time of day differs the most."""
    both, weekday = weekday.startswith("+"), weekday.removeprefix("+")
    weekdays, nth_weekdays = _weekdays(weekday, name)
    return Days(
        months=_values(_MONTH, month, name),
        month_days=_values(_DAY, day, name),
        weekdays=weekdays,
        last_day="l" in day.split(","),
        nth_weekdays=nth_weekdays,
        either=not both and _restricted(day) and _restricted(weekday),
        nearest_to=_nearest_to(day),
    )


def _fields(text: str) -> list[str]:
    if len(text) > MAX_LENGTH:
        raise InvalidSchedule("cron_expression", f"longer than {MAX_LENGTH} characters")
    if text.startswith("@") and text not in NICKNAMES:
        names = ", ".join(NICKNAMES)
        raise InvalidSchedule("cron_expression", f"'{text}' is not one of {names} and @every DURATION")
    fields = NICKNAMES.get(text, text).split()
    if len(fields) not in (5, 6):
        raise InvalidSchedule(
            "cron_expression",
            f"'{text}' has {len(fields)} fields; expected 5 (minute hour day month weekday) or 6 (seconds first)",
        )
    return fields


def _restricted(field: str) -> bool:
    """As in cron, by what is written: `1-31` and `*/2` say something of the day, `*` and `*/1` do not."""
    return field not in ("*", "?", "*/1")


def _nearest_to(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for element in text.split(","):
        if match := _NEAREST.fullmatch(element):
            day = 0 if match["day"] == "l" else int(match["day"])
            if match["day"] != "l" and not _DAY.low <= day <= _DAY.high:
                _refuse(_DAY, element)
            found.append(day)
    return tuple(found)


def _weekdays(text: str, name: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    plain: list[str] = []
    nth: list[tuple[int, int]] = []
    for element in text.split(","):
        if match := _NTH.fullmatch(element):
            nth.append((_weekday(match["weekday"], element), int(match["nth"])))
        elif match := _LAST.fullmatch(element):
            nth.append((_weekday(match["after"] or match["before"], element), 0))
        else:
            plain.append(element)
    return _values(_WEEKDAY, ",".join(plain), name) if plain else 0, tuple(nth)


def _weekday(text: str, element: str) -> int:
    if text.isdigit():
        return int(text) % 7
    return _WEEKDAYS[text] if text in _WEEKDAYS else _refuse(_WEEKDAY, element)


@lru_cache(maxsize=16_384)
def _values(field: _Field, text: str, name: str) -> int:
    """The set of a field's values."""
    mask = 0
    for element in text.split(","):
        if field is _DAY and (element == "l" or _NEAREST.fullmatch(element)):
            continue
        for value in _expand(field, element, name):
            mask |= 1 << value
    return mask


def _expand(field: _Field, element: str, name: str) -> list[int]:
    written = element
    if match := _HASHED.fullmatch(element):
        element = _hashed(field, match, name)
    match = _PLAIN.fullmatch(element)
    if match is None or (element == "?" and field not in (_DAY, _WEEKDAY)):
        _refuse(field, written)
    if match["low"] and (match["high"] or match["step"]) and _alone(field, match):
        element = match["low"]
    values = _expanded(field.position, element)
    if values is None:
        _refuse(field, written)
    if values == ("*",):
        return list(range(field.low, field.high + 1))
    numbers = [value for value in values if isinstance(value, int)]
    return numbers if len(numbers) == len(values) else _refuse(field, written)


@lru_cache(maxsize=16_384)
def _expanded(position: int, element: str) -> tuple[object, ...] | None:
    """croniter's reading of one element; None when it refuses it.

    It takes most of a millisecond, and a million schedules are written with a few hundred elements.
    """
    columns = ["*"] * 5
    columns[position] = element
    try:
        return tuple(croniter.expand(" ".join(columns))[0][position])
    except (ValueError, TypeError, KeyError):
        return None


def _alone(field: _Field, match: re.Match[str]) -> bool:
    """`9-9` and, in the hour, `23/2`: ranges of one value, which croniter takes for the whole cycle."""
    return (
        match["low"] == match["high"] if match["high"] else match["low"] in (str(field.high), field.last_name)
    )


def _hashed(field: _Field, match: re.Match[str], name: str) -> str:
    """`H` spreads jobs over a field by name: `H`, `H/15`, `H(0-29)`, `H(0-29)/10`."""
    low, high = field.low, field.hashed_high
    if match["low"]:
        low, high = int(match["low"]), int(match["high"])
        if not field.low <= low <= high <= field.high:
            _refuse(field, match[0])
    step = int(match["step"]) if match["step"] else None
    if step == 0:
        _refuse(field, match[0])
    span = high - low + 1 if step is None else min(step, high - low + 1)
    first = low + int(fraction("H", field.name, name) * span)
    return str(first) if step is None else f"{first}-{high}/{step}"


def _refuse(field: _Field, element: str) -> NoReturn:
    bounds = f"{field.low}-{field.high}"
    raise InvalidSchedule(
        "cron_expression", f"'{element}' is not a valid {field.name} ({bounds}, lists, ranges, steps)"
    )
