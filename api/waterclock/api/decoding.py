"""Untrusted input to request structs. Whatever the input, the answer is a struct or a refusal that names the field.

Bodies of requests as structs: definitions by their own reader, which finds all that is wrong, the rest by type.
"""

import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, cast

import msgspec
from msgspec import Struct

from waterclock.api.commands.definitions import refusal
from waterclock.api.errors import Invalid, Malformed, Refused
from waterclock.core.domain.job import parse
from waterclock.core.domain.job.request_reader import Reader
from waterclock.core.domain.job.validate import DefinitionLimits, InvalidDefinition, Problems
from waterclock.core.runtime.clock import now_us
from waterclock.proto.commands import JobRequest, PreviewRequest
from waterclock.proto.queries import JobPatch, WorkflowPatch

Q = TypeVar("Q")
S = TypeVar("S", bound=Struct)

_AT = re.compile(r" - at `(?P<path>[^`]*)`$")
_NAMED = re.compile(r"^Object (?P<what>missing required|contains unknown) field `(?P<field>[^`]*)`")


def decode(data: bytes, kind: type[Q]) -> Q:
    """A JSON document as a struct; an empty body is an empty object."""
    try:
        return _without_nul(msgspec.json.decode(data or b"{}", type=kind))
    except (ValueError, RecursionError) as error:
        refuse(error)


def convert(fields: Mapping[str, Any], kind: type[Q], *, text: bool) -> Q:
    """A struct from fields; `text` where numbers and booleans come as strings, as in a query."""
    try:
        return _without_nul(msgspec.convert(dict(fields), kind, strict=not text))
    except (ValueError, RecursionError) as error:
        refuse(error)


def _without_nul(request: Q) -> Q:
    """A NUL character is no part of anything we know, and the database does not take one."""
    if isinstance(request, msgspec.Struct):
        for name in request.__struct_fields__:
            value = getattr(request, name)
            for text in value if isinstance(value, list | tuple) else (value,):
                if isinstance(text, str) and "\0" in text:
                    raise Invalid.field(name, "contains a NUL character")
    return request


def refuse(error: Exception) -> NoReturn:
    raise _refusal(error) from None


def _refusal(error: Exception) -> Refused:
    if isinstance(error, RecursionError):
        return Malformed.field("", "nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return Malformed.field("", "not UTF-8")
    if not isinstance(error, msgspec.ValidationError):
        return Malformed.field("", str(error))
    message = str(error)
    at = _AT.search(message)
    path = at["path"].removeprefix("$").removeprefix(".") if at else ""
    reason = message[: at.start()] if at else message
    if not path and reason.startswith("Expected `object`"):
        return Malformed.field("", "the body must be a JSON object")
    if named := _NAMED.match(reason):
        path = f"{path}.{named['field']}" if path else named["field"]
        reason = "required" if named["what"] == "missing required" else "no such field"
    return Invalid.field(path, reason)


_READERS: dict[type[Struct], Reader[Any]] = {
    kind: Reader(kind) for kind in (JobRequest, JobPatch, WorkflowPatch, PreviewRequest)
}
_LIMITS = DefinitionLimits(body_bytes=64 << 20)
"""Sizes are the method's business, which can name the field."""


def read(body: bytes | Mapping[str, Any], kind: type[S]) -> S:
    reader = _READERS.get(kind)
    if reader is None:
        return decode(body, kind) if isinstance(body, bytes) else convert(body, kind, text=False)
    problems = Problems()
    try:
        request = reader.read(body or b"{}", problems, _LIMITS)
        problems.refuse()
    except InvalidDefinition as error:
        raise refusal(_all_that_is_wrong(body, error) if kind is JobRequest else error) from None
    return cast(S, request)


def _all_that_is_wrong(body: bytes | Mapping[str, Any], error: InvalidDefinition) -> InvalidDefinition:
    """Fields that cannot be read, and what makes no sense in those that can."""
    try:
        parse.define_body(body, now_us(), _LIMITS)
    except InvalidDefinition as more:
        return more
    return error
