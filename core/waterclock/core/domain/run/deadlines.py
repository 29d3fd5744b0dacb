"""Too late to start: what was due more than `start_deadline_seconds` ago is missed and not run.

Whoever has it decides. While it waits for its turn that is the owner of its partition, to the moment. While it is
queued an executor may take it at any time: that one writes its start into the log before it begins, and does not begin
unless that is there in time. So an owner that has read no start a little after the deadline knows that there is none.
An executor that is not the first to have it cannot know that, and leaves it to the owner.
"""

from waterclock.core.domain.instants import SECOND
from waterclock.proto.events import Instant, RunsMissed, Trigger
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import WorkItem

START_GRACE = 2 * SECOND
"""How long after its deadline a queued run is left to whoever may have begun it: so much may clocks differ, and reading
be late."""

_ON_ITS_OWN: frozenset[Trigger] = frozenset({"schedule", "catch_up", "now", "dependency"})
"""Parts of a whole have started with it, and a backfill is late on purpose."""


def too_late(spec: JobSpec, due: Instant, now: Instant) -> str | None:
    """Why it must not start any more; None if it may."""
    deadline = spec.start_deadline_seconds
    if deadline is None or now - due <= deadline * SECOND:
        return None
    return f"start deadline of {deadline:g} s passed"


def latest_start(spec: JobSpec, due: Instant, trigger: Trigger) -> Instant | None:
    """Until when the first attempt of a run may start; None: at any time."""
    deadline = spec.start_deadline_seconds
    if deadline is None or trigger not in _ON_ITS_OWN:
        return None
    return due + int(deadline * SECOND)


def has_start_deadline(item: WorkItem, crash_count: int) -> bool:
    """Only the first attempt has one: a run that is tried again has started before. So has one whose executor died."""
    return (
        item.spec.start_deadline_seconds is not None
        and item.attempt == item.first_attempt
        and not crash_count
        and item.trigger in _ON_ITS_OWN
    )


def missed_in_queue(
    item: WorkItem, crash_count: int, now: Instant, executor_id: str = ""
) -> RunsMissed | None:
    """What becomes of queued work that an executor takes too late; None: it may start."""
    if not has_start_deadline(item, crash_count):
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
        trigger=shown_trigger(item.trigger),
        attempt=item.attempt,
        executor_id=executor_id,
    )


def shown_trigger(trigger: Trigger) -> Trigger:
    """A fire that does not run is the schedule's, caught up or not."""
    return "schedule" if trigger == "catch_up" else trigger
