"""Accepting definitions: one by one and in bulk. That a repeat makes no second job is in `idempotency`."""

import asyncio
import secrets
from itertools import count

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands import dependencies, job_specs, similar_definitions
from waterclock.api.commands.alike_lines import BulkReader
from waterclock.api.commands.idempotency import accepted, batch_key, new_job, resolve_taken
from waterclock.api.commands.own_artifacts import check_artifacts
from waterclock.api.errors import Conflict, Refused, TooLarge, Unavailable
from waterclock.api.eventlog.job_frames import Creation, NewJob
from waterclock.api.eventlog.job_writer import Created
from waterclock.api.registry import handles
from waterclock.core.jetstream.errors import Conflict as Taken
from waterclock.core.jetstream.errors import LogError, LogFull, LogUnavailable
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import BatchResult, JobAccepted
from waterclock.proto.commands import JobBatch
from waterclock.proto.spec import JobRequest

MAX_BATCH = 10_000

_DEFINITIONS_AT_A_STRETCH = 100
"""So many are read before other requests get their turn."""

_ORIGIN = secrets.token_hex(8)
_numbers = count(1)
"""Together they name each request to create one job."""


@handles(methods.JOBS_CREATE)
async def create(app: Application, request: JobRequest, caller: Caller) -> JobAccepted:
    now = now_us()
    defaults = await app.quotas.defaults()
    spec = similar_definitions.define(request, now, app.settings, caller, defaults)
    job = new_job(spec, job_specs.chosen_id(request), now, caller, f"{_ORIGIN}{next(_numbers):x}")
    await dependencies.check(app, job.job_id, job.spec)
    await check_artifacts(app, job.spec)
    await app.admission.admit_job(job.spec, caller.namespace)
    await app.quotas.take(job.spec.namespace)
    try:
        created = await app.job_writer.create(job)
        await dependencies.register(app, created.job_id, created.version, job.spec)
        return accepted(job, created)
    except Taken:
        return await resolve_taken(app, job, request, caller)


@handles(methods.JOBS_BATCH)
async def batch(app: Application, request: JobBatch, caller: Caller) -> list[BatchResult]:
    if len(request.jobs) > MAX_BATCH:
        raise TooLarge.because(f"{len(request.jobs)} jobs in one call; the most is {MAX_BATCH}")
    await app.admission.admit_jobs(request.jobs, caller.namespace)
    key, now, defaults = batch_key(request, caller), now_us(), await app.quotas.defaults()
    call = key or secrets.token_hex(8)
    reader = BulkReader(call, len(request.jobs), now, app.settings, caller, defaults)
    results: list[BatchResult | None] = [None] * len(request.jobs)
    places: list[int] = []
    jobs: list[Creation] = []
    for place, line in enumerate(request.jobs):
        try:
            job = reader.read(bytes(line), place)
            if isinstance(job, NewJob):
                await dependencies.check(app, job.job_id, job.spec)
                await check_artifacts(app, job.spec)
        except Refused as refused:
            results[place] = _refused(place, refused)
        else:
            places.append(place)
            jobs.append(job)
        if place % _DEFINITIONS_AT_A_STRETCH == 0:
            await asyncio.sleep(0)
    await app.quotas.take(caller.namespace, len(jobs))
    written = await app.job_writer.create_many(jobs, key)
    for place, new, outcome in zip(places, jobs, written, strict=True):
        if isinstance(outcome, Created):
            results[place] = _accepted(place, accepted(new, outcome))
        else:
            results[place] = await _not_written(app, place, new, outcome, bytes(request.jobs[place]), caller)
    return [result for result in results if result is not None]


async def _not_written(
    app: Application, place: int, job: Creation, error: LogError, line: bytes, caller: Caller
) -> BatchResult:
    try:
        if isinstance(error, Taken) and job.job_id is None:
            raise Conflict.because("the idempotency key was used for a call with other jobs")
        if isinstance(error, Taken):
            return _accepted(place, await resolve_taken(app, job, line, caller))
        if isinstance(error, LogUnavailable | LogFull):
            raise Unavailable.because(f"the log did not take it: {error}", retry_after=1)
    except Refused as refused:
        return _refused(place, refused)
    raise error


def _accepted(place: int, created: JobAccepted) -> BatchResult:
    return BatchResult(
        line=place + 1,
        status=created.status,
        job_id=created.job_id,
        version=created.version,
        next_run_at=created.next_run_at,
        created=created.created,
        warnings=created.warnings,
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
