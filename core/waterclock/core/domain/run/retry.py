"""When the next attempt is due, if there is one. The only place that decides it."""

from waterclock.core.domain.ids import fraction
from waterclock.core.domain.instants import SECOND
from waterclock.proto.events import Instant
from waterclock.proto.policies import Retry

CRASH_LIMIT = 5
"""A run whose executor died or lost its lease this often is a dead letter."""


def backoff_seconds(policy: Retry, failures: int, *seed: object) -> float:
    """The wait after the n-th failure (1, 2, …): exponential, capped, with full jitter drawn from the seed."""
    exponent = min(failures - 1, 1000)
    try:
        wait = min(policy.initial_seconds * policy.factor**exponent, policy.max_seconds)
    except OverflowError:
        wait = policy.max_seconds
    return wait * fraction(*seed, failures) if policy.jitter else wait


def next_attempt_at(
    policy: Retry,
    max_retries: int,
    failures: int,
    run_id: str,
    now: Instant,
    after_seconds: float | None = None,
) -> Instant | None:
    """The instant of the next attempt after the n-th failure, or None when attempts are used up.

    `after_seconds` is a wait somebody else asked for (a `Retry-After` header, a handler's `Retry(after=…)`).
    """
    if failures > max_retries:
        return None
    wait = backoff_seconds(policy, failures, run_id) if after_seconds is None else after_seconds
    return now + int(wait * SECOND)
