"""What a run gives to those after it: one JSON value of limited size."""

from typing import Any

import msgspec

LIMIT = 64 * 1024

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class NotAnOutput(Exception):
    pass


def encoded(value: Any) -> Any:
    """A value as it goes into the event. Raises NotAnOutput."""
    if value is None:
        return None
    try:
        data = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotAnOutput(f"the output is no JSON: {error}") from error
    if len(data) > LIMIT:
        raise NotAnOutput(
            f"the output is {len(data)} bytes, over the limit of {LIMIT}: keep it elsewhere and return where"
        )
    return msgspec.Raw(data)


def from_line(line: bytes) -> Any:
    """The value of a line if it is one, else None."""
    if not line or len(line) > LIMIT:
        return None
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
