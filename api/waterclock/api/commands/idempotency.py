"""The same idempotency key gives the same job back, also under concurrent submits and retries.

A job with a key has an id that is derived from its namespace and key, so creating it by compare-and-set is the
deduplication: of two at the same moment one is written, and the other finds the id taken.
"""

from msgspec import UNSET

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import scoped
from waterclock.api.commands import job_specs
from waterclock.api.errors import Conflict, Unavailable
from waterclock.api.eventlog.job_frames import Creation, NewJob
from waterclock.api.eventlog.job_writer import Created
from waterclock.api.views import next_run_at
from waterclock.core.domain.ids import keyed_id
from waterclock.core.domain.job.aggregate import Job
from waterclock.core.domain.job.edit import differences
from waterclock.core.domain.job.validate import NO_DEFAULTS, Defaults
from waterclock.core.jetstream.job_definitions import Definition
from waterclock.core.runtime.clock import now_us
from waterclock.proto.answers import JobAccepted
from waterclock.proto.commands import JobBatch
from waterclock.proto.events import Instant
from waterclock.proto.problem import Difference
from waterclock.proto.spec import JobRequest, JobSpec


def batch_key(request: JobBatch, caller: Caller) -> str | None:
    """The call's key within its namespace, as a short text: it becomes part of what is logged."""
    return None if request.idempotency_key is None else keyed_id(caller.namespace, request.idempotency_key)


def new_job(spec: JobSpec, job_id: str | None, now: Instant, caller: Caller, cause: str) -> NewJob:
    return NewJob(
        spec=spec,
        at=now,
        job_id=own_id(spec.namespace, job_id, spec.idempotency_key),
        actor=caller.actor,
        cause=cause,
        next_run_at=next_run_at(spec.schedule, spec.name, "SCHEDULED", None, now, now),
    )


def own_id(namespace: str, chosen: str | None, key: str | None) -> str | None:
    """The id of a job that was given one, or an idempotency key; None: any will do."""
    if chosen is None and key is not None:
        chosen = keyed_id(namespace, key)
    return None if chosen is None else scoped(namespace, chosen)


async def resolve_taken(
    app: Application, job: Creation, request: JobRequest | bytes, caller: Caller
) -> JobAccepted:
    """The id is taken: by this very request, by the same one before it, or by another job."""
    assert job.job_id is not None
    stored = await app.definitions.read(job.job_id)
    if stored is None:
        raise Unavailable.because("the job was removed while it was created", retry_after=1)
    if stored.cause == job.cause:
        return accepted(job, Created(job_id=job.job_id, version=stored.version))
    spec = job.spec
    key = spec.idempotency_key
    if key is None or stored.job.spec.idempotency_key != key or stored.job.spec.namespace != spec.namespace:
        raise Conflict.field("job_id", f"there is a job {job.job_id} already")
    first = await app.definitions.first(job.job_id) or stored
    if differing := await _differences(app, first.job, request, caller):
        raise Conflict.because(
            f"the idempotency key {key} was used for a job that differs in "
            + ", ".join(difference.field for difference in differing),
            differences=differing,
        )
    return _repeated(stored)


async def _differences(
    app: Application, first: Job, request: JobRequest | bytes, caller: Caller
) -> list[Difference]:
    """Between what was accepted and what the request says now. What it does not say had the defaults of then."""
    of_then = Defaults(max_retries=first.spec.max_retries, timeout_seconds=first.spec.timeout_seconds)
    found: list[Difference] = []
    for defaults in (lambda _: NO_DEFAULTS, lambda _: of_then, await app.quotas.defaults()):
        again = job_specs.define(request, first.created_at, app.settings, caller, defaults)
        found = differences(first.spec, again)
        if not found:
            break
    return found


def accepted(job: Creation, created: Created) -> JobAccepted:
    return JobAccepted(
        job_id=created.job_id,
        version=created.version,
        status="SCHEDULED",
        next_run_at=job.next_run_at,
        warnings=job.warnings or UNSET,
    )


def _repeated(stored: Definition) -> JobAccepted:
    job = stored.job
    return JobAccepted(
        job_id=job.job_id,
        version=stored.version,
        status=job.status,
        next_run_at=next_run_at(
            job.spec.schedule, job.spec.name, job.status, None, job.created_at, now_us(), job.due_now
        ),
        created=False,
    )
