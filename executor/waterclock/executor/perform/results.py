"""From what a job gave to a result: output values, which are JSON of limited size, and what exceptions mean."""

import traceback
from typing import Any

import msgspec

from waterclock.executor.attempt_record import Cancelled, Failed, Result, Snoozed
from waterclock.executor.handler_exceptions import Cancel, Retry, SecretMissing, Snooze
from waterclock.executor.masking import SecretValues
from waterclock.proto.values import UnfitValue, check_document, decode_value

OUTPUT_LIMIT = 64 * 1024
_TRACEBACK_LIMIT = 8 * 1024
_REASON_LIMIT = 500

_encode = msgspec.json.Encoder().encode


class InvalidOutput(Exception):
    """A handler returned something that is not JSON, or too large."""


def encode_output(value: Any) -> Any:
    """A value as it goes into the event. Raises InvalidOutput."""
    if value is None:
        return None
    try:
        data = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidOutput(f"the output is no JSON: {error}") from error
    if len(data) > OUTPUT_LIMIT:
        raise InvalidOutput(
            f"the output is {len(data)} bytes, over the limit of {OUTPUT_LIMIT}: keep it elsewhere and return where"
        )
    try:
        check_document(data)
    except UnfitValue as error:
        raise InvalidOutput(f"the output {error}") from None
    return msgspec.Raw(data)


def parse_output(text: bytes) -> Any:
    """The value of a process's last line or of a response's body; None if it is not JSON, or beyond what a value may
    be: it is text then, as all other output."""
    if not text or len(text) > OUTPUT_LIMIT:
        return None
    try:
        return decode_value(text)
    except UnfitValue:
        return None


def result_of_exception(error: Exception, secrets: SecretValues | None = None) -> Result:
    """`secrets` are masked before anything is cut off: half of one would not be recognised."""
    mask = str if secrets is None else secrets.mask
    match error:
        case Retry():
            return Failed(reason=_writable(str(error)), error="Retry", after_seconds=error.after)
        case Snooze():
            return Snoozed(seconds=error.seconds, reason=_writable(str(error)))
        case Cancel():
            return Cancelled(reason=_writable(str(error)))
        case SecretMissing():
            return Failed(reason=_writable(str(error)), error="SecretMissing", final=True)
        case InvalidOutput():
            return Failed(reason=_writable(str(error)), final=True)
        case _:
            return Failed(
                reason=_writable(mask(f"{type(error).__name__}: {error}")[:_REASON_LIMIT]),
                error=type(error).__name__,
                error_message=_writable(mask("".join(traceback.format_exception(error)))[-_TRACEBACK_LIMIT:]),
            )


def _writable(text: str) -> str:
    """Without what is no UTF-8, such as a file name that is none: an event with it could not be written."""
    return text.encode(errors="replace").decode()
