"""Values that come from outside: payloads, metadata, outputs of runs, parameters. What every reader of one can rely on.

JSON has no bound for nesting nor for the digits of a number, but each program that reads it has one, and a reader that
meets a value beyond its own dies of what another could write. So there is one bound, and it is asked wherever a value
comes in: what is within it can be read, written, compared and shown everywhere.
"""

import re
from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

MAX_DEPTH = 64
"""Lists and objects inside each other, of a value that comes in."""
MAX_STORED_DEPTH = 100
"""Of a value that is read from the log: outputs of members are put into one list, and that is a value again."""
MAX_DIGITS = 100
"""Of a whole number. Fractions are binary64, as everywhere."""

_LARGEST = 10**MAX_DIGITS
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_ALL_BUT_OPENING = bytes(set(range(256)) - set(b"[{"))
_STRIDE = MAX_DIGITS // 2
_DIGIT_OR_NOT = bytes(b"01"[byte in b"0123456789"] for byte in range(256))
_TOO_DEEP = "is nested too deeply"
_TOO_LONG = f"contains a number of more than {MAX_DIGITS} digits"

_CONTAINERS = (dict, list, tuple)

_decode = msgspec.json.Decoder().decode


class UnfitValue(ValueError):
    """No JSON, or JSON beyond the bounds; the text says which, to come after the name of a field."""


def may_be_unfit(data: bytes) -> bool:
    """Whether a document may be beyond the bounds: cheap, and wrong only on the safe side."""
    return (len(data) > MAX_DEPTH and len(data.translate(None, _ALL_BUT_OPENING)) > MAX_DEPTH) or (
        len(data) > MAX_DIGITS and _has_long_number(data)
    )


def _has_long_number(data: bytes) -> bool:
    """Of so many digits in a row two are neighbours among every fiftieth byte. Most documents have no such two."""
    return b"11" in data[::_STRIDE].translate(_DIGIT_OR_NOT) and _LONG_NUMBER.search(data) is not None


def check_document(data: bytes, depth: int = MAX_DEPTH) -> None:
    """Raises UnfitValue for a document that is beyond the bounds. What is no JSON at all is left to its decoder."""
    if not may_be_unfit(data):
        return
    try:
        value = _decode(data)
    except RecursionError:
        raise UnfitValue(_TOO_DEEP) from None
    except ValueError as error:
        if "Integer value out of range" in str(error):  # of more digits than Python reads
            raise UnfitValue(_TOO_LONG) from None
        return
    reason = beyond_bounds(value, depth)
    if reason is not None:
        raise UnfitValue(reason)


def decode_value(data: bytes) -> Any:
    """A JSON document of any kind. Raises UnfitValue."""
    check_document(data)
    try:
        return _decode(data)
    except RecursionError:
        raise UnfitValue(_TOO_DEEP) from None
    except ValueError as error:
        raise UnfitValue(f"is not JSON: {error}") from None


def beyond_bounds(value: Any, depth: int = MAX_DEPTH) -> str | None:
    """Why a value is not to be taken, to come after the name of its field; None if nothing is wrong with it."""
    match value:
        case bool():
            return None
        case int():
            return None if -_LARGEST < value < _LARGEST else _TOO_LONG
        case float():
            return None if isfinite(value) else "contains a number that is not finite"
        case dict() | list() | tuple() if depth <= 0:
            return _TOO_DEEP
        case dict():
            parts: Iterable[Any] = value.values()
        case list() | tuple():
            parts = value
        case _:
            return None
    for part in parts:
        if not isinstance(part, str) and (reason := beyond_bounds(part, depth - 1)) is not None:
            return reason
    return None


def readable(value: Any) -> Any:
    """A value of the log as it is to be shown: one that nobody could read is a text that says so. The version before
    this took them, and they must not stand in the way of what is stored beside them."""
    if isinstance(value, _CONTAINERS) and (reason := beyond_bounds(value, MAX_STORED_DEPTH)):
        return f"(not shown: it {reason})"
    return value
