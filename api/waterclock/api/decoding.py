"""Untrusted input to request structs: the result is a struct, or a refusal that names the field.

The client and the command line use this too, so it imports nothing of the service.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn, TypeVar

import msgspec

from waterclock.api.errors import Invalid, Malformed, Refused
from waterclock.proto.problem import field_error
from waterclock.proto.values import UnfitValue, beyond_bounds, check_document

Q = TypeVar("Q")

_EARLIEST, _LATEST = 1900, 9990


def decode(data: bytes, kind: type[Q]) -> Q:
    """A JSON document as a struct; an empty body is an empty object."""
    try:
        check_document(data)
        return _without_nul(msgspec.json.decode(data or b"{}", type=kind))
    except UnfitValue as error:
        raise Malformed.field("", f"the body {error}") from None
    except (ValueError, RecursionError) as error:
        refuse(error, kind)


def decode_envelope(data: bytes, kind: type[Q]) -> Q:
    """As `decode`, of a document whose parts stay raw. Their bounds are for whoever reads them to check, one by one."""
    try:
        return _without_nul(msgspec.json.decode(data, type=kind))
    except (ValueError, RecursionError):
        return decode(data, kind)


def convert(fields: Mapping[str, Any], kind: type[Q], *, text: bool) -> Q:
    """A struct from fields; `text` where numbers and booleans come as strings, as in a query."""
    for name, value in fields.items():
        if reason := beyond_bounds(value):
            raise Invalid.field(name, reason)
    try:
        return _without_nul(msgspec.convert(dict(fields), kind, strict=not text))
    except (ValueError, RecursionError) as error:
        refuse(error, kind)


def _without_nul(request: Q, within: str = "") -> Q:
    """A NUL character is no part of anything we know, and the database does not take one. Nor does anybody compute with
    times at the ends of the calendar."""
    if isinstance(request, msgspec.Struct):
        for name, shown in zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True):
            value, name, shown = getattr(request, name), within + name, within + shown
            if isinstance(value, msgspec.Struct):
                _without_nul(value, f"{shown}.")
            if isinstance(value, datetime):
                if value.tzinfo is None:
                    raise Invalid.field(shown, "needs an offset, as in 2030-01-01T00:00:00Z")
                if not _EARLIEST < value.year < _LATEST:
                    raise Invalid.field(shown, f"must be between the years {_EARLIEST} and {_LATEST}")
            for text in value if isinstance(value, list | tuple) else (value,):
                if isinstance(text, str) and "\0" in text:
                    raise Invalid.field(name, "contains a NUL character")
    return request


def refuse(error: Exception, kind: Any) -> NoReturn:
    raise _refusal(error, kind) from None


def _refusal(error: Exception, kind: Any) -> Refused:
    if isinstance(error, RecursionError):
        return Malformed.field("", "nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return Malformed.field("", "not UTF-8")
    if not isinstance(error, msgspec.ValidationError):
        return Malformed.field("", str(error))
    wrong = field_error(error, kind)
    if not wrong.field and wrong.reason.startswith("expected object"):
        return Malformed.field("", "the body must be a JSON object")
    return Invalid.field(wrong.field, wrong.reason)
