"""Step four, classify: what the result of an attempt means, as the event that goes into the log.

Pure, and the only place that decides whether and when an attempt is followed by another.
"""

from typing import assert_never

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.run.retry import CRASH_LIMIT, next_attempt_at
from waterclock.executor.attempt_record import (
    Attempt,
    Cancelled,
    Failed,
    OutcomeEvent,
    Result,
    Returned,
    Snoozed,
    Succeeded,
    TimedOut,
)
from waterclock.proto.events import (
    Instant,
    OutcomeRejected,
    RunCancelled,
    RunFailed,
    RunReturned,
    RunSnoozed,
    RunSucceeded,
    RunTimedOut,
)


def classify(attempt: Attempt, result: Result, now: Instant) -> OutcomeEvent:
    item, details = attempt.item, result.details
    match result:
        case Succeeded(output=output):
            return RunSucceeded(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                output=output,
                exit_code=details.exit_code,
                log_url=details.log_url,
                log_lost=details.log_lost,
                cpu_seconds=details.cpu_seconds,
                memory_bytes=details.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case Failed():
            return RunFailed(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=result.reason,
                error_message=result.error_message,
                output=result.output,
                retry_at=_retry_after_failure(attempt, result, now),
                exit_code=details.exit_code,
                log_url=details.log_url,
                log_lost=details.log_lost,
                cpu_seconds=details.cpu_seconds,
                memory_bytes=details.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case TimedOut():
            return RunTimedOut(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=result.reason,
                error_message=result.error_message,
                retry_at=_retry(attempt, now) if item.spec.retry.retry_on_timeout else None,
                exit_code=details.exit_code,
                log_url=details.log_url,
                log_lost=details.log_lost,
                cpu_seconds=details.cpu_seconds,
                memory_bytes=details.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case Snoozed():
            return RunSnoozed(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                until=now + int(result.seconds * SECOND),
                reason=result.reason,
                log_url=details.log_url,
                cpu_seconds=details.cpu_seconds,
                memory_bytes=details.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case Returned():
            crashes = attempt.crash_count + 1 if result.crashed else 0
            if crashes >= CRASH_LIMIT:
                reason = f"{result.reason}; {crashes} crashes, no further attempt"
                return classify(attempt, Failed(reason=reason, final=True, details=details), now)
            return RunReturned(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=result.reason,
                crash_count=crashes,
                log_url=details.log_url,
                cpu_seconds=details.cpu_seconds,
                memory_bytes=details.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case Cancelled():
            return RunCancelled(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=result.reason,
                exit_code=details.exit_code,
                log_url=details.log_url,
                cpu_seconds=details.cpu_seconds,
                memory_bytes=details.memory_bytes,
                version=item.version,
                scheduled=item.scheduled,
                fencing_token=attempt.fencing_token,
            )
        case _:
            assert_never(result)


def rejected(attempt: Attempt, outcome: OutcomeEvent, current_token: int) -> OutcomeRejected:
    """An outcome that came after the lease was lost. `current_token`: of the lease's holder now, 0 if nobody has it."""
    return OutcomeRejected(
        run_id=attempt.item.run_id,
        at=outcome.at,
        attempt=attempt.item.attempt,
        executor_id=attempt.executor_id,
        fencing_token=attempt.fencing_token or 0,
        current_token=current_token or None,
        outcome=str(outcome.__struct_config__.tag),
    )


def _retry_after_failure(attempt: Attempt, result: Failed, now: Instant) -> Instant | None:
    policy = attempt.item.spec.retry
    if (
        result.final
        or result.details.exit_code in policy.non_retryable_exit_codes
        or result.error in policy.non_retryable_errors
    ):
        return None
    return _retry(attempt, now, result.after_seconds)


def _retry(attempt: Attempt, now: Instant, after_seconds: float | None = None) -> Instant | None:
    spec = attempt.item.spec
    return next_attempt_at(
        spec.retry, spec.max_retries, attempt.failures, attempt.item.run_id, now, after_seconds
    )
