"""The rows of a job that was created and no more than that, or whose only run was queued once and succeeded, made at
once from these events.

The first is what every schedule is when it is stored, the second what nearly every one-shot comes to, soon after it was
created or when its time has come. `job_fold` and `run_fold` make the same rows event by event, for whatever else may
happen to a job, and a test tells both the same lives. What is here is only for lives whose rows it gets right:
`is_its_run`, `is_only_run` and `is_its_end` say which.
"""

from typing import Any, TypeGuard

from msgspec import Struct

from waterclock.core.domain.readmodel.job_fold import TIMED
from waterclock.core.domain.readmodel.rows import clean, definition_row, json_value
from waterclock.core.domain.readmodel.run_steps import lost_log
from waterclock.core.domain.schedule.fire import InvalidSchedule
from waterclock.core.domain.schedule.fires import counts_from, next_fire
from waterclock.proto.events import Instant, JobCreated, RunEvent, RunQueued, RunSucceeded

NewJob = tuple[JobCreated, int, Instant | None]
"""A job that was created, its version, and when it fires first."""
ShortLife = tuple[JobCreated, int, RunQueued, int, RunSucceeded, int]
"""Each event with its sequence in the log. Plain tuples, because there is one for each of very many jobs."""
OnlyRun = tuple[RunQueued, int, RunSucceeded, int]
"""Of a one-shot that was stored before."""


class StoredOneShot(Struct, frozen=True, gc=False):
    """What the rows of its run need to know of a job that was to run once and has not yet."""

    job_id: str
    namespace: str
    created_at: Instant
    timed: bool
    """It was not to run at once, but at a time."""


def first_fire(created: JobCreated) -> Instant | None:
    """When a new job fires first; None: its schedule does not say, or cannot be read."""
    spec = created.spec
    schedule = spec.schedule
    if created.first_fire is not None or schedule.schedule_type not in TIMED:
        return created.first_fire
    try:
        return next_fire(schedule, clean(spec.name) or "", counts_from(schedule, created.at))
    except InvalidSchedule:
        return None


def is_its_run(event: RunEvent, created: JobCreated) -> TypeGuard[RunQueued]:
    """Whether this is the first event of the run that the job was created for: one that was to run at once."""
    return (
        type(event) is RunQueued
        and created.spec.schedule.schedule_type == "IMMEDIATE"
        and _is_first_of_schedule(event, created.job_id)
        and event.scheduled >= counts_from(created.spec.schedule, created.at)
    )


def is_only_run(event: RunEvent, job_id: str) -> TypeGuard[RunQueued]:
    """Whether this is the first event of the run of a one-shot, as far as the event tells."""
    return type(event) is RunQueued and event.once and _is_first_of_schedule(event, job_id)


def _is_first_of_schedule(event: RunQueued, job_id: str) -> bool:
    """A part of a run is none: it has a `~` behind its job's id, in which there may be one too."""
    return (
        event.trigger == "schedule"
        and event.attempt == 1
        and not event.again
        and event.run_id.find("~", len(job_id)) < 0
    )


def waiting_one_shot(job: NewJob, run: RunQueued) -> StoredOneShot | None:
    """What its run needs to know of a job to which nothing has happened since it was created; None: it was not to run
    then."""
    created, version, fire = job
    if version != run.version or (created.created_at if fire is None else fire) != run.scheduled:
        return None
    return StoredOneShot(created.job_id, created.spec.namespace, created.created_at, fire is not None)


def is_its_end(event: RunEvent, queued: RunQueued) -> TypeGuard[RunSucceeded]:
    """Whether that run has succeeded."""
    return type(event) is RunSucceeded and event.attempt == queued.attempt and event.run_id == queued.run_id


def definition_of(job: NewJob | ShortLife) -> tuple[Any, ...]:
    """`job_definitions`."""
    created, version = job[0], job[1]
    effective_from = counts_from(created.spec.schedule, created.at)
    return definition_row(created, "SCHEDULED", version, version, effective_from, created.created_at)


def new_state_of(job: NewJob) -> tuple[Any, ...]:
    """`job_state` of a job that was created, but for its last column, `skipped`: to encode an empty list takes as long
    as all the others do."""
    created, _, fire = job
    return (
        created.job_id,
        created.spec.namespace,
        "SCHEDULED",
        fire,
        None,
        None,
        None,
        None,
        None,
        created.created_at,
    )


def ended_state_of(life: ShortLife) -> tuple[Any, ...]:
    """`job_state` of a job whose run has ended, as far as `new_state_of` has it."""
    created, _, queued, _, _, last_sequence = life
    return (
        created.job_id,
        created.spec.namespace,
        "COMPLETED",
        None,
        None,
        None,
        None,
        queued.scheduled,
        last_sequence,
        created.created_at,
    )


def fired_state_of(job: StoredOneShot, run: OnlyRun) -> tuple[Any, ...]:
    """`job_state` of a one-shot that was stored, and whose run has ended. What was to run at once has no fires."""
    queued, first_sequence, _, last_sequence = run
    return (
        job.job_id,
        job.namespace,
        "COMPLETED",
        None,
        queued.scheduled if job.timed else None,
        first_sequence if job.timed else None,
        None,
        queued.scheduled,
        last_sequence,
        job.created_at,
        (),
    )


def run_of(life: ShortLife) -> tuple[Any, ...]:
    """`run_state`."""
    created = life[0]
    return only_run_row(created.job_id, created.spec.namespace, life[2:])


def only_run_row(job_id: str, namespace: str, run: OnlyRun) -> tuple[Any, ...]:
    """`run_state`."""
    queued, first_sequence, ended, last_sequence = run
    at, ended_at = queued.at, ended.at
    return (
        queued.run_id,
        job_id,
        namespace,
        queued.parent,
        queued.epoch,
        "SUCCESS",
        lost_log(ended) or None,
        "schedule",
        queued.version,
        1,
        1,
        queued.crash_count,
        queued.scheduled,
        queued.due,
        at,
        ended.started,
        ended_at,
        ended_at,
        ended.executor_id,
        ended.exit_code,
        None,
        None if ended.output is None else json_value(ended.output),
        clean(ended.log_url),
        ended.cpu_seconds,
        ended.memory_bytes,
        ended.fencing_token,
        queued.queue,
        queued.tier,
        queued.priority,
        first_sequence,
        last_sequence,
        at,
        None,
    )
