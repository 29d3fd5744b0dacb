"""What the end of an attempt means: the event that goes into the log. Pure, and the only place that decides it."""

from typing import assert_never

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.run.retry import CRASH_LIMIT, next_attempt_at
from waterclock.executor import attempt_record
from waterclock.executor.attempt_record import Attempt
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

OutcomeEvent = RunSucceeded | RunFailed | RunTimedOut | RunSnoozed | RunReturned | RunCancelled


def classify(attempt: Attempt, end: attempt_record.Ending, now: Instant) -> OutcomeEvent:
    item, traces = attempt.item, end.traces
    match end:
        case attempt_record.Succeeded(output=output):
            return RunSucceeded(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                output=output,
                exit_code=traces.exit_code,
                log_url=traces.log_url,
                cpu_seconds=traces.cpu_seconds,
                memory_bytes=traces.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case attempt_record.Failed():
            return RunFailed(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=end.reason,
                error_message=end.error_message,
                output=end.output,
                retry_at=_retry_after_failure(attempt, end, now),
                exit_code=traces.exit_code,
                log_url=traces.log_url,
                cpu_seconds=traces.cpu_seconds,
                memory_bytes=traces.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case attempt_record.TimedOut():
            return RunTimedOut(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=end.reason,
                error_message=end.error_message,
                retry_at=_retry(attempt, now) if item.spec.retry.retry_on_timeout else None,
                exit_code=traces.exit_code,
                log_url=traces.log_url,
                cpu_seconds=traces.cpu_seconds,
                memory_bytes=traces.memory_bytes,
                fencing_token=attempt.fencing_token,
            )
        case attempt_record.Snoozed():
            return RunSnoozed(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                until=now + int(end.seconds * SECOND),
                reason=end.reason,
                log_url=traces.log_url,
                fencing_token=attempt.fencing_token,
            )
        case attempt_record.HandedBack():
            crashes = attempt.crash_count + 1 if end.crashed else 0
            if crashes >= CRASH_LIMIT:
                reason = f"{end.reason}; {crashes} crashes, no further attempt"
                return classify(attempt, attempt_record.Failed(reason=reason, final=True, traces=traces), now)
            return RunReturned(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=end.reason,
                crash_count=crashes,
                log_url=traces.log_url,
                fencing_token=attempt.fencing_token,
            )
        case attempt_record.Cancelled():
            return RunCancelled(
                run_id=item.run_id,
                at=now,
                attempt=item.attempt,
                executor_id=attempt.executor_id,
                started=attempt.started,
                reason=end.reason,
                exit_code=traces.exit_code,
                log_url=traces.log_url,
                version=item.version,
                scheduled=item.scheduled,
                fencing_token=attempt.fencing_token,
            )
        case _:
            assert_never(end)


def rejected(attempt: Attempt, outcome: OutcomeEvent, current_token: int) -> OutcomeRejected:
    """An outcome that came too late to count. `current_token`: whose it is now, 0 if nobody's."""
    return OutcomeRejected(
        run_id=attempt.item.run_id,
        at=outcome.at,
        attempt=attempt.item.attempt,
        executor_id=attempt.executor_id,
        fencing_token=attempt.fencing_token or 0,
        current_token=current_token or None,
        outcome=str(outcome.__struct_config__.tag),
    )


def _retry_after_failure(attempt: Attempt, end: attempt_record.Failed, now: Instant) -> Instant | None:
    policy = attempt.item.spec.retry
    if (
        end.final
        or end.traces.exit_code in policy.non_retryable_exit_codes
        or end.error in policy.non_retryable_errors
    ):
        return None
    return _retry(attempt, now, end.after_seconds)


def _retry(attempt: Attempt, now: Instant, after_seconds: float | None = None) -> Instant | None:
    spec = attempt.item.spec
    return next_attempt_at(
        spec.retry, spec.max_retries, attempt.failures, attempt.item.run_id, now, after_seconds
    )
