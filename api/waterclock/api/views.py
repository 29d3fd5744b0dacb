"""Definitions as answers show them."""

from datetime import datetime

from waterclock.api.readmodels.jobs import JobRow
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.schedule.fires import compile
from waterclock.core.jetstream.definitions import Definition
from waterclock.proto import answers
from waterclock.proto.answers import RetryPolicy, Run
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobSpec, Retry
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
        next_run_at=next_run_at(job.spec, status, row if same else None, job.created_at, now),
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


def next_run_at(
    spec: JobSpec, status: JobState, row: JobRow | None, created_at: Instant, now: Instant
) -> datetime | None:
    """When the job fires next, as far as its schedule says; None if it will not or nobody knows."""
    if status != "SCHEDULED":
        return None
    schedule = spec.schedule
    if schedule.schedule_type == "IMMEDIATE":
        return None if row is not None and row.last_run is not None else datetime_of(created_at)
    if schedule.schedule_type == "FUTURE":
        return None if row is not None and row.last_run is not None else schedule.schedule_time
    fire = compile(schedule, spec.name).after(now)
    return None if fire is None else datetime_of(fire.scheduled)


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
    schedule = spec.schedule
    crons = schedule.cron_expression
    return answers.Job(
        job_id=job_id,
        name=spec.name,
        schedule_type=schedule.schedule_type,
        status=status,
        schedule_time=schedule.schedule_time,
        cron_expression=None if not crons else crons[0] if len(crons) == 1 else crons,
        interval_seconds=schedule.interval_seconds,
        timezone=schedule.timezone,
        start_at=schedule.start_at,
        end_at=schedule.end_at,
        jitter_seconds=schedule.jitter_seconds,
        max_fires=schedule.max_fires,
        dst_gap=schedule.dst_gap,
        dst_overlap=schedule.dst_overlap,
        exclude=schedule.exclude,
        overlap=spec.overlap,
        catch_up=spec.catch_up,
        task=spec.task,
        payload=spec.payload,
        labels=spec.labels,
        metadata=spec.metadata,
        dependencies=spec.dependencies,
        dependency_rule=spec.dependency_rule,
        priority=spec.priority,
        tier=spec.tier,
        queue=spec.queue,
        slots=spec.slots,
        concurrency_key=spec.concurrency_key,
        concurrency_limit=spec.concurrency_limit,
        rate_key=spec.rate_key,
        rate_per_second=spec.rate_per_second,
        start_deadline_seconds=spec.start_deadline_seconds,
        pause_on_failure=spec.pause_on_failure,
        max_retries=spec.max_retries,
        retry=_retry(spec.retry),
        timeout_seconds=spec.timeout_seconds,
        delivery=spec.delivery,
        critical=spec.critical,
        retention=spec.retention,
        limits=spec.limits,
        secrets=spec.secrets,
        fan_out=spec.fan_out,
        idempotency_key=spec.idempotency_key,
        namespace=spec.namespace,
        version=version,
        next_run_at=next_run_at,
        last_run=last_run,
        created_at=created_at,
        updated_at=updated_at,
        note=note,
    )


def _retry(retry: Retry) -> RetryPolicy:
    return RetryPolicy(
        initial_seconds=retry.initial_seconds,
        factor=retry.factor,
        max_seconds=retry.max_seconds,
        jitter=retry.jitter,
        retry_on_timeout=retry.retry_on_timeout,
        non_retryable_exit_codes=retry.non_retryable_exit_codes,
        non_retryable_errors=retry.non_retryable_errors,
    )
