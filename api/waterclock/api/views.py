"""Definitions as answers show them."""

from datetime import datetime
from typing import Any

from waterclock.api.readmodels.jobs import JobRow
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.schedule.fires import counts_from, next_fire
from waterclock.core.jetstream.job_definitions import Definition
from waterclock.proto import answers
from waterclock.proto.answers import RetryPolicy, Run
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobFields, JobSpec, Schedule
from waterclock.proto.verdicts import JobState


def job_from_log(definition: Definition, now: Instant, row: JobRow | None) -> answers.Job:
    """The definition as the log has it, with what the read models know beside it."""
    job = definition.job
    same = row is not None and row.version >= definition.version
    status: JobState = row.status if row is not None and same else job.status
    return _job(
        job.job_id,
        job.spec,
        status=status,
        version=definition.version,
        next_run_at=next_run_at(
            job.spec.schedule, job.spec.name, status, row if same else None, job.created_at, now, job.due_now
        ),
        last_run=row.last_run if row else None,
        created_at=datetime_of(job.created_at),
        updated_at=datetime_of(job.updated_at),
        note=job.note,
    )


def job_from_row(row: JobRow) -> answers.Job:
    return _job(
        row.job_id,
        row.spec,
        status=row.status,
        version=row.version,
        next_run_at=row.next_run_at if row.status == "SCHEDULED" else None,
        last_run=row.last_run,
        created_at=row.created_at,
        updated_at=row.updated_at,
        note=row.note,
    )


def job_of_then(definition: Definition) -> answers.Job:
    """A definition as it was at its version: what the job did, and does next, is no part of that."""
    job = definition.job
    return _job(
        job.job_id,
        job.spec,
        status=job.status,
        version=definition.version,
        next_run_at=None,
        last_run=None,
        created_at=datetime_of(job.created_at),
        updated_at=datetime_of(job.updated_at),
        note=job.note,
    )


def next_run_at(
    schedule: Schedule,
    name: str,
    status: JobState,
    row: JobRow | None,
    created_at: Instant,
    now: Instant,
    due_now: Instant | None = None,
) -> datetime | None:
    """When the job fires next, as far as its schedule says; None if it will not or nobody knows. `due_now`: when an
    edit made it due at once."""
    if status != "SCHEDULED":
        return None
    if due_now is not None or schedule.schedule_type == "IMMEDIATE":
        fire = created_at if due_now is None else due_now
        return None if _has_run(row, fire) else datetime_of(fire)
    one_shot = schedule.schedule_type == "FUTURE"
    skipped = frozenset[datetime]() if row is None else row.skipped
    following = next_fire(schedule, name, counts_from(schedule, created_at) if one_shot else now)
    while following is not None and datetime_of(following) in skipped:
        following = next_fire(schedule, name, following)
    if following is None or (one_shot and _has_run(row, following)):
        return None
    return datetime_of(following)


def _has_run(row: JobRow | None, due: Instant) -> bool:
    """Whether the fire of a one-shot is among its runs, as far as the read models know."""
    last = None if row is None or row.last_run is None else row.last_run.scheduled_time
    return last is not None and last >= datetime_of(due)


_OF_SPEC = ("name", "task", "namespace", *(name for name in JobFields.__struct_fields__ if name != "retry"))
_OF_SCHEDULE = tuple(name for name in Schedule.__struct_fields__ if name != "cron_expression")


def _job(
    job_id: str,
    spec: JobSpec,
    *,
    status: JobState,
    version: int,
    next_run_at: datetime | None,
    last_run: Run | None,
    created_at: datetime,
    updated_at: datetime,
    note: str,
) -> answers.Job:
    schedule, retry = spec.schedule, spec.retry
    crons = schedule.cron_expression
    copied: dict[str, Any] = {name: getattr(spec, name) for name in _OF_SPEC}
    for name in _OF_SCHEDULE:
        copied[name] = getattr(schedule, name)
    return answers.Job(
        job_id=job_id,
        cron_expression=None if not crons else crons[0] if len(crons) == 1 else crons,
        retry=RetryPolicy(**{name: getattr(retry, name) for name in retry.__struct_fields__}),
        status=status,
        version=version,
        next_run_at=next_run_at,
        last_run=last_run,
        created_at=created_at,
        updated_at=updated_at,
        note=note,
        **copied,
    )
