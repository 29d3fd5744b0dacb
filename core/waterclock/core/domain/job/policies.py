"""How runs are treated: retries, timeouts, catching up, keys."""

from msgspec import UnsetType

from waterclock.core.domain.job import durations, request_fields
from waterclock.core.domain.job.request_fields import fill, said
from waterclock.core.domain.job.validate import Problems
from waterclock.proto.commands import CatchUpRequest, JobRequest, NodeRequest
from waterclock.proto.spec import CatchUp, CatchUpPolicy, Retry


def max_retries_of(request: JobRequest | NodeRequest, problems: Problems) -> int:
    one, other = said(request.max_retries), said(request.retries)
    if one is not None and other is not None and one != other:
        problems.add("retries", "says something else than max_retries")
    return one if one is not None else other or 0


def retry_of(request: JobRequest | NodeRequest) -> Retry:
    policy = said(request.retry)
    return request_fields.RETRY if policy is None else fill(Retry, policy)


def timeout_of(request: JobRequest | NodeRequest, problems: Problems) -> float | None:
    text = None if isinstance(request.timeout, UnsetType) else request.timeout
    seconds = said(request.timeout_seconds)
    if text is None:
        return seconds
    if seconds is not None:
        problems.add("timeout", "cannot be combined with timeout_seconds")
        return seconds
    try:
        seconds = durations.read(text) / 1_000_000
    except durations.InvalidDuration as error:
        problems.add("timeout", str(error))
        return None
    if seconds <= 0:
        problems.add("timeout", "must be more than nothing")
    return seconds


def catch_up_of(request: JobRequest) -> CatchUp:
    asked: CatchUpPolicy | CatchUpRequest | None = said(request.catch_up)
    if isinstance(asked, CatchUpRequest):
        return fill(CatchUp, asked)
    return request_fields.CATCH_UP if asked is None else CatchUp(policy=asked)


def concurrency_limit_of(request: JobRequest, problems: Problems) -> int | None:
    """A key without a limit lets one run at a time; a limit needs a key."""
    key, limit = said(request.concurrency_key), said(request.concurrency_limit)
    if key is None and limit is not None:
        problems.add("concurrency_limit", "needs a concurrency_key")
    return 1 if key is not None and limit is None else limit


def rate_of(request: JobRequest, problems: Problems) -> float | None:
    key, rate = said(request.rate_key), said(request.rate_per_second)
    if (key is None) != (rate is None):
        missing, given = ("rate_key", "rate_per_second") if key is None else ("rate_per_second", "rate_key")
        problems.add(given, f"needs a {missing}")
    return rate
