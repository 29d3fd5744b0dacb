"""Claims: whether a work item that was delivered before may run once more."""

from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.run.retry import CRASH_LIMIT
from waterclock.proto.events import Instant, RunCancelled, RunLost, RunReturned
from waterclock.proto.work import ClaimReply, ClaimRequest

_SILENT_DELIVERIES = 3
"""From this delivery on, an attempt that never said it started counts as a crash: it may kill its executor at once."""

_DROP = ClaimReply(verdict="drop")
_WAIT = ClaimReply(verdict="wait")


ClaimEvent = RunLost | RunCancelled | RunReturned


def decide_claim(
    run: Run | None, request: ClaimRequest, *, alive: bool, now: Instant
) -> tuple[ClaimReply, tuple[ClaimEvent, ...]]:
    """The reply, and what becomes of the run. `alive`: whether the executor that had it still does. Who asks does not
    execute it."""
    if run is None or run.status not in ("QUEUED", "RUNNING"):
        return _DROP, ()
    if run.attempt != request.attempt or run.queued_at != request.queued:
        return _DROP, ()
    if run.status == "QUEUED" and request.in_parcel and request.delivered > 1 and not run.cancelling:
        return _DROP, _taken_out(run, request, now)
    if run.status == "QUEUED" and run.start_by is not None and now > run.start_by and not run.cancelling:
        # A start may be in the log and not read yet; if there is none, the owner ends it soon.
        return _WAIT, ()
    if run.status == "QUEUED" and request.delivered < _SILENT_DELIVERIES:
        return ClaimReply(verdict="run", crash_count=run.crash_count), ()
    is_same = run.status == "RUNNING" and run.executor_id == request.executor_id
    if is_same and not run.cancelling:
        return ClaimReply(verdict="run", crash_count=run.crash_count, has_started=True), ()
    if run.status == "RUNNING" and alive and not is_same:
        return _WAIT, ()
    if run.cancelling:
        reason = "cancelled; its executor " + ("no longer had it" if is_same else "died")
        cancelled = RunCancelled(run_id=run.run_id, at=now, reason=reason, attempt=run.attempt)
        return _DROP, (cancelled,)
    lost = _lost(run, now)
    return ClaimReply(verdict="drop" if lost.dead else "run", crash_count=lost.crash_count), (lost,)


def _taken_out(run: Run, request: ClaimRequest, now: Instant) -> tuple[ClaimEvent, ...]:
    """A parcel that was delivered before is taken apart: what has not begun is queued again by itself. Else one attempt
    that kills its executor would do so to all that travel with it, again and again, until they count as crashed.

    It may have begun, and that is in the log and not read yet. So that it goes back all the same it is lost first.
    """
    lost = RunLost(
        run_id=run.run_id,
        at=now,
        attempt=run.attempt,
        crash_count=run.crash_count,
        reason="its executor died before it began; it goes by itself",
    )
    returned = RunReturned(
        run_id=run.run_id,
        at=now,
        attempt=run.attempt,
        executor_id=request.executor_id,
        started=now,
        reason="taken out of a parcel whose executor died",
    )
    return lost, returned


def _lost(run: Run, now: Instant) -> RunLost:
    crashes = run.crash_count + 1
    dead = crashes >= CRASH_LIMIT
    reason = f"executor {run.executor_id or 'unknown'} died"
    if dead:
        reason += f"; {crashes} crashes, no further attempt"
    return RunLost(
        run_id=run.run_id,
        at=now,
        attempt=run.attempt,
        crash_count=crashes,
        executor_id=run.executor_id,
        reason=reason,
        dead=dead,
    )
