"""Too late to start: what was due more than `start_deadline_seconds` ago is missed and not run."""

from waterclock.core.domain.instants import SECOND
from waterclock.proto.events import Instant, RunsMissed, Trigger
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import WorkItem

_ON_ITS_OWN: frozenset[Trigger] = frozenset({"schedule", "catch_up", "now", "dependency"})
"""Parts of a whole have started with it, and a backfill is late on purpose."""


def too_late(spec: JobSpec, due: Instant, now: Instant) -> str | None:
    """Why it must not start any more; None if it may."""
    deadline = spec.start_deadline_seconds
    if deadline is None or now - due <= deadline * SECOND:
        return None
    return f"start deadline of {deadline:g} s passed"


def missed_in_queue(item: WorkItem, crash_count: int, now: Instant) -> RunsMissed | None:
    """What becomes of queued work that an executor takes too late; None: it may start.

    Only the first attempt has a deadline: a run that is tried again has started before. So has one whose executor died.
    """
    if item.attempt != item.first_attempt or crash_count or item.trigger not in _ON_ITS_OWN:
        return None
    reason = too_late(item.spec, item.due, now)
    if reason is None:
        return None
    return RunsMissed(
        run_id=item.run_id,
        at=now,
        version=item.version,
        scheduled=item.scheduled,
        until=item.scheduled,
        count=1,
        reason=f"{reason} in the queue: it was due {(now - item.due) / SECOND:.1f} s before an executor had room",
        trigger="schedule" if item.trigger == "catch_up" else item.trigger,
    )
