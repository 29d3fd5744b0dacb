"""Spans of time as people write them: `30s`, `5m`, `1h30m`, `2d`, `500ms`."""

import re
from decimal import Decimal
from math import isfinite

_UNITS = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"\s*(?P<number>[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?P<unit>ms|s|m|h|d|w)", re.ASCII)
_LONGEST = 36_525 * _UNITS["d"]


class InvalidDuration(ValueError):
    """Says what is wrong with it."""


def parse(text: str) -> int:
    """Microseconds."""
    rest, total, seen = text.strip().lower(), Decimal(0), set[str]()
    if not rest:
        raise InvalidDuration("is empty; expected a duration such as 30s, 5m or 1h30m")
    if rest.replace(".", "", 1).isdigit():
        raise InvalidDuration(f"'{text}' has no unit; expected a duration such as {rest[:9]}s or {rest[:9]}m")
    while rest:
        part = _PART.match(rest)
        if part is None or part["unit"] in seen:
            raise InvalidDuration(f"'{text[:40]}' is not a duration such as 30s, 5m, 1h30m or 2d")
        seen.add(part["unit"])
        total += Decimal(part["number"]) * _UNITS[part["unit"]]
        rest = rest[part.end() :]
    return _bounded(round(total))


def read(value: str | float) -> int:
    """Microseconds of a duration or of a number of seconds."""
    if isinstance(value, str):
        return parse(value)
    if not isfinite(value):
        raise InvalidDuration("is not a finite number of seconds")
    return _bounded(round(Decimal(str(value)) * _UNITS["s"]))


def _bounded(microseconds: int) -> int:
    if microseconds < 0:
        raise InvalidDuration("must not be negative")
    if microseconds > _LONGEST:
        raise InvalidDuration("is longer than a century")
    return microseconds
