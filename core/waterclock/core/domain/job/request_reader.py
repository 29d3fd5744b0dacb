"""From bytes to a request: types, sizes and characters, with every wrong field named.

A good body is decoded in one step. Only a bad or suspicious one is taken apart field by field, to find all that is
wrong with it and what is left when that is taken away.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from waterclock.core.domain.job.validate import (
    DEFAULT_LIMITS,
    DefinitionLimits,
    InvalidDefinition,
    Problems,
    check_value,
)
from waterclock.proto.problem import FieldError, field_error
from waterclock.proto.spec import JobRequest, PreviewRequest
from waterclock.proto.values import MAX_DIGITS, may_be_unfit

R = TypeVar("R", bound=Struct)
Body = bytes | Mapping[str, Any]


class Reader(Generic[R]):
    """Reads one kind of request."""

    def __init__(self, kind: type[R]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}

    def read(self, body: Body, problems: Problems, limits: DefinitionLimits) -> R:
        """The request, without the fields that are reported as wrong; there is none without one that it must have."""
        if isinstance(body, bytes):
            _check_size(len(body), limits)
            try:
                if not _suspicious(body):
                    return self._decode(body)
            except (ValueError, RecursionError):
                pass
            body = _object(body)
        else:
            body = _as_plain_values(body, limits)
        return self._assemble(body, problems, limits)

    def _assemble(self, body: Mapping[str, Any], problems: Problems, limits: DefinitionLimits) -> R:
        good: dict[str, Any] = {}
        for name, value in body.items():
            field = self._fields.get(name)
            if field is None:
                problems.add(name, self._unknown(name))
            elif check_value(value, name, problems, limits.depth):
                try:
                    good[field.name] = msgspec.convert(value, field.type)
                except msgspec.ValidationError as error:
                    wrong = field_error(error, field.type, name)
                    problems.add(wrong.field, wrong.reason)
        for name, field in self._fields.items():
            if field.required and field.name not in good:
                if not problems.has(name):
                    problems.add(name, "is required")
                problems.refuse()
        return self._kind(**good)

    def _unknown(self, name: str) -> str:
        close = get_close_matches(name[:64], self._fields, 1)
        return f"there is no such field; did you mean {close[0]}?" if close else "there is no such field"


_JOBS = Reader(JobRequest)
_PREVIEWS = Reader(PreviewRequest)


def read_request(body: Body, limits: DefinitionLimits = DEFAULT_LIMITS) -> JobRequest:
    """A job's definition or an edit of one; raises InvalidDefinition with every field that cannot be read."""
    problems = Problems()
    request = _JOBS.read(body, problems, limits)
    problems.refuse()
    return request


def read_preview(body: Body, limits: DefinitionLimits = DEFAULT_LIMITS) -> PreviewRequest:
    problems = Problems()
    request = _PREVIEWS.read(body, problems, limits)
    problems.refuse()
    return request


def read_leniently(body: Body, problems: Problems, limits: DefinitionLimits) -> JobRequest:
    """What can be read of a body; the rest is among the problems."""
    return _JOBS.read(body, problems, limits)


def _suspicious(body: bytes) -> bool:
    """Whether a body may hold what no value may contain; cheap, and wrong only on the safe side."""
    return b"\\u0000" in body or may_be_unfit(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except RecursionError:
        raise _malformed("is nested too deeply") from None
    except UnicodeDecodeError:
        raise _malformed("is not UTF-8") from None
    except ValueError as error:
        if "Integer value out of range" in str(error):
            raise _malformed(f"contains a number of more than {MAX_DIGITS} digits") from None
        raise _malformed(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _malformed("must be a JSON object")
    return found


def _as_plain_values(body: Mapping[str, Any], limits: DefinitionLimits) -> dict[str, Any]:
    """A mapping from a program or a YAML file, as JSON would have it: times become text, tuples lists."""
    try:
        found = msgspec.to_builtins(dict(body), str_keys=True)
        _check_size(len(msgspec.json.encode(found)), limits)
    except RecursionError:
        raise _malformed("is nested too deeply") from None
    except UnicodeEncodeError:
        raise _malformed("holds characters that cannot be written as UTF-8") from None
    except (TypeError, ValueError) as error:
        raise _malformed(f"cannot be written as JSON: {error}") from None
    assert isinstance(found, dict)
    return found


def _check_size(size: int, limits: DefinitionLimits) -> None:
    if size > limits.body_bytes:
        reason = f"has {size} bytes; at most {limits.body_bytes} are taken"
        raise InvalidDefinition((FieldError(field="", reason=f"the definition {reason}"),), "too_large")


def _malformed(reason: str) -> InvalidDefinition:
    return InvalidDefinition((FieldError(field="", reason=f"the body {reason}"),), "malformed")
