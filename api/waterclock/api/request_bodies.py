"""Bodies of requests as structs: definitions by their own reader, which finds all that is wrong, the rest by type."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec import Struct

from waterclock.api.decoding import convert, decode, decode_envelope
from waterclock.api.errors import Invalid, Malformed, Refused, TooLarge
from waterclock.core.domain.job import parse
from waterclock.core.domain.job.request_reader import Reader
from waterclock.core.domain.job.validate import DefinitionLimits, InvalidDefinition, Problems
from waterclock.core.runtime.clock import now_us
from waterclock.proto.commands import JobBatch, JobPatch, JobWhatIf, WorkflowPatch, WorkflowWhatIf
from waterclock.proto.spec import JobRequest, PreviewRequest

S = TypeVar("S", bound=Struct)

_READERS: dict[type[Struct], Reader[Any]] = {
    kind: Reader(kind)
    for kind in (JobRequest, JobPatch, JobWhatIf, WorkflowPatch, WorkflowWhatIf, PreviewRequest)
}
_LIMITS = DefinitionLimits(body_bytes=64 << 20)
"""Sizes are the method's business, which can name the field."""
_KINDS: dict[str, type[Refused]] = {"malformed": Malformed, "too_large": TooLarge, "invalid": Invalid}


def read(body: bytes | Mapping[str, Any], kind: type[S]) -> S:
    reader = _READERS.get(kind)
    if kind is JobBatch and isinstance(body, bytes):
        return decode_envelope(body, kind)
    if reader is None:
        return decode(body, kind) if isinstance(body, bytes) else convert(body, kind, text=False)
    problems = Problems()
    try:
        request = reader.read(body or b"{}", problems, _LIMITS)
        problems.refuse()
    except InvalidDefinition as error:
        raise refused_definition(_all_that_is_wrong(body, error) if kind is JobRequest else error) from None
    return cast(S, request)


def refused_definition(error: InvalidDefinition) -> Refused:
    """An invalid definition as the refusal that the caller gets."""
    return _KINDS[error.kind].because(str(error), error.errors)


def _all_that_is_wrong(body: bytes | Mapping[str, Any], error: InvalidDefinition) -> InvalidDefinition:
    """Fields that cannot be read, and what makes no sense in those that can."""
    try:
        parse.define_body(body, now_us(), _LIMITS)
    except InvalidDefinition as more:
        return more
    return error
