"""What a run gives to those after it: one JSON value of limited size.

What an exception of a handler means.
"""

import traceback
from typing import Any

import msgspec

from waterclock.executor import attempt_record
from waterclock.executor.directives import Cancel, Retry, Snooze

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


_TRACEBACK_LIMIT = 8 * 1024
_REASON_LIMIT = 500


def ending_of(error: Exception) -> attempt_record.Ending:
    match error:
        case Retry():
            return attempt_record.Failed(reason=str(error), error="Retry", after_seconds=error.after)
        case Snooze():
            return attempt_record.Snoozed(seconds=error.seconds, reason=str(error))
        case Cancel():
            return attempt_record.Cancelled(reason=str(error))
        case NotAnOutput():
            return attempt_record.Failed(reason=str(error), final=True)
        case _:
            return attempt_record.Failed(
                reason=f"{type(error).__name__}: {error}"[:_REASON_LIMIT],
                error=type(error).__name__,
                error_message="".join(traceback.format_exception(error))[-_TRACEBACK_LIMIT:],
            )
