"""How events change the row of their job: its status, and when it fires next.

The two streams meet here, and may come in any order. So what comes from each is kept apart: from `JOBS` the definition
and from when on it counts, from `RUNS` how far it fired and what of it ended. Status and next fire are functions of
both.
"""

from typing import assert_never

from waterclock.core.domain.job.aggregate import is_due_at_once
from waterclock.core.domain.readmodel.rows import JobRow, clean
from waterclock.core.domain.schedule.fire import InvalidSchedule
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.core.domain.schedule.fires import counts_from, only_time
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
)

TIMED = ("FUTURE", "CRON", "INTERVAL")
_ONE_SHOT = ("IMMEDIATE", "FUTURE")
_SKIPS_KEPT = 1000
"""The first to come; each was asked for by itself."""


def apply_definition(job: JobRow | None, event: JobEvent, version: int) -> JobRow:
    """The row after an event of `JOBS`; a given one is changed in place."""
    spec = event.spec
    if job is None:
        job = JobRow(
            job_id=event.job_id,
            namespace=spec.namespace,
            name=spec.name,
            standing="SCHEDULED",
            status="SCHEDULED",
            version=version,
            armed_version=version,
            effective_from=counts_from(spec.schedule, event.created_at),
            created_at=event.created_at,
            schedule=spec.schedule,
        )
    job.namespace, job.name, job.version = spec.namespace, clean(spec.name) or "", version
    same_time = spec.schedule.schedule_type in _ONE_SHOT and spec.schedule == job.schedule
    """Of a one-shot that keeps its time: whether it has run is as before."""
    job.schedule, job.fires = spec.schedule, None
    match event:
        case JobCreated():
            _schedule_from(job, version, counts_from(spec.schedule, event.at))
        case JobUpdated(paused_at=None):
            unchanged = same_time and not is_due_at_once(event)
            _schedule_from(job, version, job.effective_from if unchanged else event.at)
        case JobResumed():
            since = event.at if event.missed_since is None else event.missed_since
            _schedule_from(job, version, job.effective_from if same_time else since)
        case JobUpdated() | JobPaused():
            job.standing = "PAUSED"
        case JobCancelled():
            job.standing = "CANCELLED"
        case _:
            assert_never(event)
    return job


def record_fire(job: JobRow, scheduled: Instant, sequence: int) -> bool:
    """A scheduled fire was decided. Returns whether the row changed."""
    if not is_timed(job) or (job.last_fire_at is not None and job.last_fire_at >= scheduled):
        return False
    job.last_fire_at, job.fire_sequence = scheduled, sequence
    if job.skipped:
        job.skipped = tuple(time for time in job.skipped if time > scheduled)
    return True


def record_skip(job: JobRow, scheduled: Instant) -> bool:
    """Somebody asked to leave out a fire. Returns whether the row changed: one that was decided stays as it is."""
    if scheduled in job.skipped or (job.last_fire_at is not None and job.last_fire_at >= scheduled):
        return False
    job.skipped = tuple(sorted((*job.skipped, scheduled)))[:_SKIPS_KEPT]
    return True


def record_run_end(job: JobRow, scheduled: Instant, sequence: int) -> bool:
    """A run that the schedule caused is over. Returns whether the row changed: only for a one-shot."""
    if job.schedule.schedule_type not in _ONE_SHOT or (
        job.ended_time is not None and job.ended_time >= scheduled
    ):
        return False
    job.ended_time = scheduled
    job.ended_sequence = job.ended_sequence or sequence
    return True


def record_schedule_end(job: JobRow, version: int, sequence: int) -> bool:
    """The owner found no further fire. Returns whether the row changed."""
    if job.ended_version is not None and job.ended_version >= version:
        return False
    job.ended_version = version
    job.ended_sequence = job.ended_sequence or sequence
    return True


def derive_status(job: JobRow) -> None:
    """Work out status and next fire again, after what they depend on has changed."""
    next_fire = _next_fire(job)
    is_completed = job.standing != "CANCELLED" and _is_completed(job, next_fire)
    job.status = "COMPLETED" if is_completed else job.standing
    job.next_run_at = next_fire if job.status == "SCHEDULED" else None


def is_timed(job: JobRow) -> bool:
    """Whether the schedule knows when it fires."""
    return job.schedule.schedule_type in TIMED


def _schedule_from(job: JobRow, version: int, effective_from: Instant) -> None:
    job.standing, job.armed_version, job.effective_from = "SCHEDULED", version, effective_from


def _is_completed(job: JobRow, next_fire: Instant | None) -> bool:
    if job.ended_version is not None and job.ended_version >= job.armed_version:
        return True
    return (
        job.schedule.schedule_type in _ONE_SHOT
        and next_fire is None
        and job.ended_time is not None
        and job.ended_time >= max(job.effective_from, job.last_fire_at or 0)
    )


def _next_fire(job: JobRow) -> Instant | None:
    if not is_timed(job):
        return None
    after = job.effective_from if job.last_fire_at is None else max(job.effective_from, job.last_fire_at)
    only = only_time(job.schedule)
    if only is not None:
        return only if only > after and only not in job.skipped else None
    if job.fires is None:
        try:
            job.fires = compile_schedule(job.schedule, job.name)
        except InvalidSchedule:
            return None
    fire = job.fires.after(after)
    while fire is not None and fire.scheduled in job.skipped:
        fire = job.fires.after(fire.scheduled)
    return None if fire is None else fire.scheduled
