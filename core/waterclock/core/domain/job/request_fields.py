"""Reading requests, in which a field may be said, left to its default, or not said at all.

The very objects that are a definition's defaults: only those are left out when it is written to the log.
"""

from typing import Any, TypeVar

from msgspec import Struct, UnsetType

from waterclock.proto.spec import Handler, JobSpec

_SPEC = JobSpec(name="", task=Handler(handler=""))

SCHEDULE = _SPEC.schedule
CATCH_UP = _SPEC.catch_up
RETRY = _SPEC.retry


T = TypeVar("T")
S = TypeVar("S", bound=Struct)


def said(value: T | UnsetType | None) -> T | None:
    return None if isinstance(value, UnsetType) else value


def said_or(value: T | UnsetType | None, default: T) -> T:
    return default if value is None or isinstance(value, UnsetType) else value


def fields_said(request: Struct) -> dict[str, Any]:
    """Null counts as said here: it asks for the default."""
    values = ((name, getattr(request, name)) for name in request.__struct_fields__)
    return {name: value for name, value in values if not isinstance(value, UnsetType)}


def fill(kind: type[S], request: Struct) -> S:
    """The struct that a request with the same field names stands for; what was not said gets its default."""
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in fields_said(request).items()})
