"""Accepting definitions: one by one and in bulk, each exactly once per idempotency key."""

import asyncio
import secrets

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import scoped
from waterclock.api.commands import dependencies, job_specs
from waterclock.api.commands.job_specs import BatchDefinitions
from waterclock.api.errors import Conflict, Refused, TooLarge, Unavailable
from waterclock.api.eventlog.job_frames import NewJob
from waterclock.api.eventlog.job_writer import Created
from waterclock.api.registry import handles
from waterclock.api.views import next_run_at
from waterclock.core.domain.ids import keyed_id
from waterclock.core.domain.job.edit import differences
from waterclock.core.jetstream.definitions import Definition
from waterclock.core.jetstream.errors import Conflict as Taken
from waterclock.core.jetstream.errors import LogError, LogFull, LogUnavailable
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import BatchResult, JobAccepted
from waterclock.proto.commands import JobBatch
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobRequest, JobSpec

MAX_BATCH = 10_000

_DEFINITIONS_AT_A_STRETCH = 100
"""So many are read before other requests get their turn."""


@handles(methods.JOBS_CREATE)
async def create(app: Application, request: JobRequest, caller: Caller) -> JobAccepted:
    now = now_us()
    spec = job_specs.define(request, now, app.settings, caller)
    job = _new_job(spec, job_specs.chosen_id(request), now, caller, secrets.token_hex(8))
    await dependencies.check(app, job.job_id, job.spec)
    await app.quotas.take(job.spec.namespace)
    try:
        created = await app.job_writer.create(job)
        await dependencies.register(app, created.job_id, created.version, job.spec)
        return _accepted(job, created)
    except Taken:
        return await _resolve_taken(app, job, request, caller)


@handles(methods.JOBS_BATCH)
async def batch(app: Application, request: JobBatch, caller: Caller) -> list[BatchResult]:
    if len(request.jobs) > MAX_BATCH:
        raise TooLarge.because(f"{len(request.jobs)} jobs in one call; the most is {MAX_BATCH}")
    key, now = _batch_key(request, caller), now_us()
    call = key or secrets.token_hex(8)
    definitions = BatchDefinitions(app.settings, caller, now)
    results: list[BatchResult | None] = [None] * len(request.jobs)
    places: list[int] = []
    jobs: list[NewJob] = []
    for place, line in enumerate(request.jobs):
        try:
            spec, chosen = definitions.define(bytes(line))
            job = _new_job(spec, chosen, now, caller, f"{call}/{place}")
            await dependencies.check(app, job.job_id, job.spec)
        except Refused as refused:
            results[place] = _refused(place, refused)
        else:
            places.append(place)
            jobs.append(job)
        if place % _DEFINITIONS_AT_A_STRETCH == 0:
            await asyncio.sleep(0)
    await app.quotas.take(caller.namespace, len(jobs))
    written = await app.job_writer.create_many(jobs, key)
    for place, job, outcome in zip(places, jobs, written, strict=True):
        results[place] = await _result(app, place, job, outcome, bytes(request.jobs[place]), caller)
    return [result for result in results if result is not None]


def _batch_key(request: JobBatch, caller: Caller) -> str | None:
    """The call's key within its namespace, as a short text: it becomes part of what is logged."""
    return None if request.idempotency_key is None else keyed_id(caller.namespace, request.idempotency_key)


def _new_job(spec: JobSpec, job_id: str | None, now: Instant, caller: Caller, cause: str) -> NewJob:
    if job_id is None and spec.idempotency_key is not None:
        job_id = keyed_id(spec.namespace, spec.idempotency_key)
    if job_id is not None:
        job_id = scoped(spec.namespace, job_id)
    return NewJob(spec=spec, at=now, job_id=job_id, actor=caller.actor, cause=cause)


async def _resolve_taken(
    app: Application, job: NewJob, request: JobRequest | bytes, caller: Caller
) -> JobAccepted:
    """The id is taken: by this very request, by the same one before it, or by another job."""
    assert job.job_id is not None
    stored = await app.definitions.read(job.job_id)
    if stored is None:
        raise Unavailable.because("the job was removed while it was created", retry_after=1)
    if stored.cause == job.cause:
        return _accepted(job, Created(job_id=job.job_id, version=stored.version))
    key = job.spec.idempotency_key
    if (
        key is None
        or stored.job.spec.idempotency_key != key
        or stored.job.spec.namespace != job.spec.namespace
    ):
        raise Conflict.field("job_id", f"there is a job {job.job_id} already")
    first = await app.definitions.first(job.job_id) or stored
    again = job_specs.define(request, first.job.created_at, app.settings, caller)
    if differing := differences(first.job.spec, again):
        raise Conflict.because(
            f"the idempotency key {key} was used for a job that differs in "
            + ", ".join(difference.field for difference in differing),
            differences=differing,
        )
    return _repeated(stored)


async def _result(
    app: Application, place: int, job: NewJob, outcome: Created | LogError, line: bytes, caller: Caller
) -> BatchResult:
    try:
        match outcome:
            case Created():
                accepted = _accepted(job, outcome)
            case Taken():
                accepted = await _resolve_taken(app, job, line, caller)
            case LogUnavailable() | LogFull():
                raise Unavailable.because(f"the log did not take it: {outcome}", retry_after=1)
            case _:
                raise outcome
    except Refused as refused:
        return _refused(place, refused)
    return BatchResult(
        line=place + 1,
        status=accepted.status,
        job_id=accepted.job_id,
        version=accepted.version,
        next_run_at=accepted.next_run_at,
        created=accepted.created,
    )


def _refused(place: int, refused: Refused) -> BatchResult:
    problem = refused.problem
    return BatchResult(
        line=place + 1,
        status=problem.status,
        title=problem.title,
        detail=problem.detail,
        errors=problem.errors,
        differences=problem.differences,
    )


def _accepted(job: NewJob, created: Created) -> JobAccepted:
    return JobAccepted(
        job_id=created.job_id,
        version=created.version,
        status="SCHEDULED",
        next_run_at=next_run_at(job.spec, "SCHEDULED", None, job.at, job.at),
    )


def _repeated(stored: Definition) -> JobAccepted:
    job = stored.job
    return JobAccepted(
        job_id=job.job_id,
        version=stored.version,
        status=job.status,
        next_run_at=next_run_at(job.spec, job.status, None, job.created_at, now_us()),
        created=False,
    )
