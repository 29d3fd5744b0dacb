"""Accepting definitions: one by one and in bulk, each exactly once per idempotency key."""

import secrets

from msgspec import UNSET

from waterclock.api import decoding, definitions
from waterclock.api.application import Application
from waterclock.api.caller import Caller
from waterclock.api.errors import Conflict, Refused, TooLarge, Unavailable
from waterclock.api.intake import Entered, NewJob
from waterclock.api.ledger import Definition
from waterclock.api.registry import handles
from waterclock.api.views import next_run_at
from waterclock.core.domain.ids import keyed_id
from waterclock.core.jetstream.errors import Conflict as Taken
from waterclock.core.jetstream.errors import LogError, LogFull, LogUnavailable
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import BatchResult, JobAccepted
from waterclock.proto.queries import JobBatch
from waterclock.proto.requests import JobRequest

MOST_IN_BATCH = 10_000


@handles(methods.JOBS_CREATE)
async def create(app: Application, request: JobRequest, caller: Caller) -> JobAccepted:
    job = await _new_job(app, request, caller)
    try:
        return _accepted(job, await app.intake.create(job))
    except Taken:
        return await _settle(app, job)


@handles(methods.JOBS_BATCH)
async def batch(app: Application, request: JobBatch, caller: Caller) -> list[BatchResult]:
    if len(request.jobs) > MOST_IN_BATCH:
        raise TooLarge.because(f"{len(request.jobs)} jobs in one call; the most is {MOST_IN_BATCH}")
    results: list[BatchResult | None] = [None] * len(request.jobs)
    places: list[int] = []
    jobs: list[NewJob] = []
    for place, line in enumerate(request.jobs):
        try:
            job = await _new_job(app, decoding.decode(bytes(line), JobRequest), caller)
        except Refused as refused:
            results[place] = _refused(place, refused)
        else:
            places.append(place)
            jobs.append(job)
    for place, job, entered in zip(places, jobs, await app.intake.create_many(jobs), strict=True):
        results[place] = await _result(app, place, job, entered)
    return [result for result in results if result is not None]


async def _new_job(app: Application, request: JobRequest, caller: Caller) -> NewJob:
    spec = await definitions.accept(app, request, caller)
    job_id = request.job_id if isinstance(request.job_id, str) else None
    if job_id is None and spec.idempotency_key is not None:
        job_id = keyed_id(spec.namespace, spec.idempotency_key)
    return NewJob(spec=spec, job_id=job_id, actor=caller.actor, cause=secrets.token_hex(8))


async def _settle(app: Application, job: NewJob) -> JobAccepted:
    """The id is taken: by this very request, by the same one before it, or by another job."""
    assert job.job_id is not None
    stored = await app.ledger.read(job.job_id)
    if stored is None:
        raise Unavailable.because("the job was removed while it was created", retry_after=1)
    if stored.cause == job.cause:
        return _accepted(job, Entered(job_id=job.job_id, version=stored.version))
    key = job.spec.idempotency_key
    if (
        key is None
        or stored.job.spec.idempotency_key != key
        or stored.job.spec.namespace != job.spec.namespace
    ):
        raise Conflict.field("job_id", f"there is a job {job.job_id} already")
    if differences := definitions.differences(stored.job.spec, job.spec):
        raise Conflict.because(
            f"the idempotency key {key} was used for a job that differs", differences=differences
        )
    return _repeated(stored)


async def _result(app: Application, place: int, job: NewJob, entered: Entered | LogError) -> BatchResult:
    try:
        match entered:
            case Entered():
                accepted = _accepted(job, entered)
            case Taken():
                accepted = await _settle(app, job)
            case LogUnavailable() | LogFull():
                raise Unavailable.because(f"the log did not take it: {entered}", retry_after=1)
            case _:
                raise entered
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
        differences=problem.differences or UNSET,
    )


def _accepted(job: NewJob, entered: Entered) -> JobAccepted:
    now = now_us()
    return JobAccepted(
        job_id=entered.job_id,
        version=entered.version,
        status="SCHEDULED",
        next_run_at=next_run_at(job.spec, "SCHEDULED", None, now, now),
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
