"""How runs are treated: retries, timeouts, catching up, keys."""

from msgspec import UnsetType

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job import durations
from waterclock.core.domain.job.request_fields import filled, value_of
from waterclock.core.domain.job.validate import Problems
from waterclock.proto.policies import CatchUp, CatchUpPolicy, CatchUpRequest
from waterclock.proto.spec import JobFields, JobRequest, WorkRequest

_CATCH_UP = JobFields().catch_up
"""The very object that is the default: only that one is left out when a definition is written."""


def max_retries_of(request: WorkRequest, problems: Problems) -> int:
    one, other = value_of(request.max_retries), value_of(request.retries)
    if one is not None and other is not None and one != other:
        problems.add("retries", "says something else than max_retries")
    return one if one is not None else other or 0


def timeout_of(request: WorkRequest, problems: Problems) -> float | None:
    text = None if isinstance(request.timeout, UnsetType) else request.timeout
    seconds = value_of(request.timeout_seconds)
    if text is None:
        return seconds
    if seconds is not None:
        problems.add("timeout", "cannot be combined with timeout_seconds")
        return seconds
    try:
        seconds = durations.read(text) / SECOND
    except durations.InvalidDuration as error:
        problems.add("timeout", str(error))
        return None
    if seconds <= 0:
        problems.add("timeout", "must be more than nothing")
    return seconds


def catch_up_of(request: JobRequest) -> CatchUp:
    asked: CatchUpPolicy | CatchUpRequest | None = value_of(request.catch_up)
    if isinstance(asked, CatchUpRequest):
        return filled(CatchUp, asked)
    return _CATCH_UP if asked is None else CatchUp(policy=asked)


def concurrency_limit_of(request: JobRequest, problems: Problems) -> int | None:
    """A key without a limit lets one run at a time; a limit needs a key."""
    key, limit = value_of(request.concurrency_key), value_of(request.concurrency_limit)
    if key is None and limit is not None:
        problems.add("concurrency_limit", "needs a concurrency_key")
    return 1 if key is not None and limit is None else limit


def rate_of(request: JobRequest, problems: Problems) -> float | None:
    key, rate = value_of(request.rate_key), value_of(request.rate_per_second)
    if (key is None) != (rate is None):
        missing, given = ("rate_key", "rate_per_second") if key is None else ("rate_per_second", "rate_key")
        problems.add(given, f"needs a {missing}")
    return rate
