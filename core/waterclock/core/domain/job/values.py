"""What no value in a definition may contain, however deep inside: it would not survive the log, the environment of a
process or the database."""

from math import isfinite
from typing import Any

from waterclock.core.domain.job.validate import Problems


def check_value(value: Any, field: str, problems: Problems, depth: int) -> bool:
    """Whether a JSON value is fit to be stored; what is not is added to the problems."""
    reason = _flaw(value, depth)
    if reason is not None:
        problems.add(field, reason)
    return reason is None


def _flaw(value: Any, depth: int) -> str | None:
    match value:
        case str():
            return "contains a NUL character" if "\0" in value else None
        case float():
            return None if isfinite(value) else "contains a number that is not finite"
        case dict() | list() | tuple() if depth <= 0:
            return "is nested too deeply"
        case dict():
            parts = (*value.keys(), *value.values())
            return next((flaw for part in parts if (flaw := _flaw(part, depth - 1)) is not None), None)
        case list() | tuple():
            return next((flaw for part in value if (flaw := _flaw(part, depth - 1)) is not None), None)
        case _:
            return None
