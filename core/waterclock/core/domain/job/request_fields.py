"""The fields of a request: given, null (the default, asked for outright) or unset."""

from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from waterclock.proto.policies import Limits, Retention, Retry
from waterclock.proto.spec import JobFields, JobRequest, WorkFields, WorkRequest

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

_STORED: dict[str, type[Struct]] = {"retry": Retry, "retention": Retention, "limits": Limits}
_COMPUTED = {
    "dependencies",
    "concurrency_limit",
    "rate_per_second",
    "catch_up",
    "max_retries",
    "timeout_seconds",
    "fan_out",
}
"""Fields that depend on another one, or have a second spelling: `parse.py` says what they come to."""

_JOB = tuple(name for name in (*JobFields.__struct_fields__, "namespace") if name not in _COMPUTED)
_WORK = tuple(name for name in WorkFields.__struct_fields__ if name not in _COMPUTED)
assert set(_JOB) <= set(JobRequest.__struct_fields__)


def value_of(value: T | UnsetType | None) -> T | None:
    return None if isinstance(value, UnsetType) else value


def value_or(value: T | UnsetType | None, default: T) -> T:
    return default if value is None or isinstance(value, UnsetType) else value


def given_fields(request: Struct) -> dict[str, Any]:
    """Null counts as given here: it asks for the default."""
    values = ((name, getattr(request, name)) for name in request.__struct_fields__)
    return {name: value for name, value in values if not isinstance(value, UnsetType)}


def filled(kind: type[S], request: Struct) -> S:
    """The struct that a request with the same field names stands for; what is not given gets its default."""
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in given_fields(request).items()})


def plain_fields(request: WorkRequest) -> dict[str, Any]:
    """The fields of a definition that are stored as they are given.

    What is not given is left out, so that the definition has the very object that is its default: only that one is
    omitted when it is written.
    """
    found: dict[str, Any] = {}
    for name in _JOB if isinstance(request, JobRequest) else _WORK:
        value = getattr(request, name)
        if value is UNSET or value is None:
            continue
        if isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, Struct):
            value = filled(_STORED[name], value)
        found[name] = value
    return found
