"""The fields of a request, each given, null (the default, asked for outright) or unset; and what they come to."""

from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job import durations
from waterclock.core.domain.job.validate import Defaults, Problems
from waterclock.proto.policies import CatchUp, CatchUpPolicy, CatchUpRequest, Limits, Retention, Retry
from waterclock.proto.spec import JobFields, JobRequest, Node, NodeRequest, WorkRequest

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
"""Fields that depend on another one, or have a second spelling: those have a function each."""

_JOB = tuple(name for name in (*JobFields.__struct_fields__, "namespace") if name not in _COMPUTED)
_OF_NODES = {"id", "task", "depends_on", "trigger_rule", "condition", "map"}
"""Those that make a node one."""
_NODE = tuple(name for name in Node.__struct_fields__ if name not in _COMPUTED | _OF_NODES)
assert set(_JOB) <= set(JobRequest.__struct_fields__)
assert set(_NODE) <= set(NodeRequest.__struct_fields__)


_CATCH_UP = JobFields().catch_up
"""The very object that is the default: only that one is left out when a definition is written."""


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
    for name in _JOB if isinstance(request, JobRequest) else _NODE:
        value = getattr(request, name)
        if value is UNSET or value is None:
            continue
        if isinstance(value, list) and name != "payload":  # that is the user's own JSON, and stays what it is
            value = tuple(value)
        elif isinstance(value, Struct):
            value = filled(_STORED[name], value)
        found[name] = value
    return found


def max_retries_of(request: WorkRequest, defaults: Defaults, problems: Problems) -> int:
    one, other = value_of(request.max_retries), value_of(request.retries)
    if one is not None and other is not None and one != other:
        problems.add("retries", "says something else than max_retries")
    said = other if one is None else one
    return defaults.max_retries if said is None else said


def timeout_of(request: WorkRequest, defaults: Defaults, problems: Problems) -> float | None:
    """None: an attempt may take as long as it likes. That is said by 0."""
    text = None if isinstance(request.timeout, UnsetType) else request.timeout
    seconds = value_of(request.timeout_seconds)
    if text is None:
        return defaults.timeout_seconds if seconds is None else seconds or None
    if seconds is not None:
        problems.add("timeout", "cannot be combined with timeout_seconds")
        return seconds
    try:
        seconds = durations.read(text) / SECOND
    except durations.InvalidDuration as error:
        problems.add("timeout", str(error))
        return None
    return seconds or None


def catch_up_of(request: JobRequest) -> CatchUp:
    asked: CatchUpPolicy | CatchUpRequest | None = value_of(request.catch_up)
    if isinstance(asked, CatchUpRequest):
        return filled(CatchUp, asked)
    return _CATCH_UP if asked is None else CatchUp(policy=asked)


def concurrency_limit_of(request: WorkRequest, problems: Problems) -> int | None:
    """A key without a limit lets one run at a time; a limit needs a key."""
    key, limit = value_of(request.concurrency_key), value_of(request.concurrency_limit)
    if key is None and limit is not None:
        problems.add("concurrency_limit", "needs a concurrency_key")
    return 1 if key is not None and limit is None else limit


def rate_of(request: WorkRequest, problems: Problems) -> float | None:
    key, rate = value_of(request.rate_key), value_of(request.rate_per_second)
    if (key is None) != (rate is None):
        missing, given = ("rate_key", "rate_per_second") if key is None else ("rate_per_second", "rate_key")
        problems.add(given, f"needs a {missing}")
    return rate
