"""How events change what is shown of a job: its status, and when it fires next.

The two streams meet here, and may come in any order. So what each tells is kept apart: `JOBS` the definition and from
when it counts, `RUNS` how far it fired and what of it ended; status and next fire are functions of both.
"""

from typing import assert_never

from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.readmodel.rows import JobHead, clean
from waterclock.core.domain.schedule.errors import InvalidSchedule
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
)
from waterclock.proto.spec import JobSpec

_TIMED = ("FUTURE", "CRON", "INTERVAL")
_ONE_SHOT = ("IMMEDIATE", "FUTURE")


def define(head: JobHead | None, event: JobEvent, version: int) -> JobHead:
    """The head after an event of `JOBS`; a given one is changed in place."""
    spec = event.spec
    if head is None:
        head = JobHead(
            job_id=event.job_id,
            namespace=spec.namespace,
            name=spec.name,
            standing="SCHEDULED",
            status="SCHEDULED",
            version=version,
            armed_version=version,
            effective_from=_born(spec, event.created_at),
            created_at=event.created_at,
            schedule=spec.schedule,
        )
    head.namespace, head.name, head.version = spec.namespace, clean(spec.name) or "", version
    head.schedule, head.fires = spec.schedule, None
    match event:
        case JobCreated():
            _arm(head, version, _born(spec, event.at))
        case JobUpdated(paused_at=None):
            _arm(head, version, event.at)
        case JobResumed():
            _arm(head, version, event.at if event.missed_since is None else event.missed_since)
        case JobUpdated() | JobPaused():
            head.standing = "PAUSED"
        case JobCancelled():
            head.standing = "CANCELLED"
        case _:
            assert_never(event)
    return head


def fired(head: JobHead, scheduled: Instant, sequence: int) -> bool:
    """A scheduled fire was decided. Answers whether that is news."""
    if not is_timed(head) or (head.last_fire_at is not None and head.last_fire_at >= scheduled):
        return False
    head.last_fire_at, head.fire_sequence = scheduled, sequence
    return True


def run_ended(head: JobHead, scheduled: Instant, sequence: int) -> bool:
    """A run that the schedule caused is over. Answers whether that is news: only for a one-shot."""
    if head.schedule.schedule_type not in _ONE_SHOT or (
        head.ended_time is not None and head.ended_time >= scheduled
    ):
        return False
    head.ended_time = scheduled
    head.ended_sequence = head.ended_sequence or sequence
    return True


def schedule_ended(head: JobHead, version: int, sequence: int) -> bool:
    """The owner found no further fire. Answers whether that is news."""
    if head.ended_version is not None and head.ended_version >= version:
        return False
    head.ended_version = version
    head.ended_sequence = head.ended_sequence or sequence
    return True


def settle(head: JobHead) -> None:
    """Work out status and next fire again, after what they depend on has changed."""
    following = _next_fire(head)
    is_over = head.standing != "CANCELLED" and _is_over(head, following)
    head.status = "COMPLETED" if is_over else head.standing
    head.next_run_at = following if head.status == "SCHEDULED" else None


def is_timed(head: JobHead) -> bool:
    """Whether the schedule knows when it fires."""
    return head.schedule.schedule_type in _TIMED


def _arm(head: JobHead, version: int, effective_from: Instant) -> None:
    head.standing, head.armed_version, head.effective_from = "SCHEDULED", version, effective_from


def _born(spec: JobSpec, at: Instant) -> Instant:
    """A one-shot whose time had passed when it was created still fires."""
    time = spec.schedule.schedule_time
    return at if time is None else min(at, instant_of(time) - 1)


def _is_over(head: JobHead, following: Instant | None) -> bool:
    if head.ended_version is not None and head.ended_version >= head.armed_version:
        return True
    return (
        head.schedule.schedule_type in _ONE_SHOT
        and following is None
        and head.ended_time is not None
        and head.ended_time >= (head.last_fire_at or 0)
    )


def _next_fire(head: JobHead) -> Instant | None:
    if not is_timed(head):
        return None
    if head.fires is None:
        try:
            head.fires = compile_schedule(head.schedule, head.name)
        except InvalidSchedule:
            return None
    fire = head.fires.after(max(head.effective_from, head.last_fire_at or head.effective_from))
    return None if fire is None else fire.scheduled
