"""Backfills: past fires of a job, run beside its live schedule. The partition's owner runs them."""

import secrets
from typing import Literal

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Conflict, Invalid
from waterclock.api.queries.backfills import (
    BackfillState,
    StoredBackfill,
    backfill_answer,
    backfill_key,
    find,
    with_progress,
)
from waterclock.api.queries.jobs import find as find_job
from waterclock.api.readmodels.runs import BackfillProgress, outcomes
from waterclock.api.registry import handles
from waterclock.core.domain.ids import keyed_id, timed_id
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.schedule.fires import compile
from waterclock.core.jetstream.errors import Conflict as Taken
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Backfill
from waterclock.proto.commands import BackfillRequest
from waterclock.proto.events import BackfillRequested, BackfillSteered, Instant
from waterclock.proto.queries import BackfillRef
from waterclock.proto.spec import JobSpec

_MAX_FIRES = 10_000
_NEVER_RAN = {"MISSED", "SKIPPED"}
_ENDED_BADLY = {"FAILED", "TIMED_OUT", "CANCELLED"}


@handles(methods.JOBS_BACKFILL)
async def backfill(app: Application, request: BackfillRequest, caller: Caller) -> Backfill:
    definition = await find_job(app, request.job_id, caller)
    fires = await _fires(app, request, definition.job.spec)
    now = now_us()
    key = request.idempotency_key
    suffix = timed_id(now, secrets.randbits(50)) if key is None else keyed_id(request.job_id, key)
    stored = StoredBackfill(
        backfill_id=f"{request.job_id}@backfill-{suffix}",
        job_id=request.job_id,
        start=instant_of(request.start),
        end=instant_of(request.end),
        max_active=request.max_active,
        fires=tuple(fires),
        at=now,
    )
    answer = backfill_answer(stored, BackfillProgress())
    if request.dry_run:
        return msgspec.structs.replace(answer, backfill_id=None, status="PLANNED")
    if not fires:
        return msgspec.structs.replace(answer, status="COMPLETED")
    await app.admission.admit(caller.namespace, min(len(fires), request.max_active))
    event = BackfillRequested(
        run_id=stored.backfill_id,
        at=now,
        version=definition.version,
        fires=stored.fires,
        max_active=request.max_active,
        actor=caller.actor,
        cause=suffix,
    )
    try:
        await app.control.create(
            backfill_key(caller.namespace, stored.backfill_id), msgspec.json.encode(stored)
        )
    except Taken:
        return await with_progress(app, await find(app, stored.backfill_id, caller))
    await app.run_requests.append(app.partition_of(request.job_id), [event])
    return answer


@handles(methods.BACKFILLS_PAUSE)
async def pause(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    return await _steer(app, request, caller, "pause", "PAUSED")


@handles(methods.BACKFILLS_RESUME)
async def resume(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    return await _steer(app, request, caller, "resume", "RUNNING")


@handles(methods.BACKFILLS_CANCEL)
async def cancel(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    return await _steer(app, request, caller, "cancel", "CANCELLED")


async def _fires(app: Application, request: BackfillRequest, spec: JobSpec) -> list[Instant]:
    """The fires that are to run, in the order asked for, given how those times went before."""
    if spec.schedule.schedule_type not in ("CRON", "INTERVAL"):
        raise Invalid.field(
            "job_id", f"{request.job_id} does not recur: there are no past times to run it for"
        )
    if request.end <= request.start:
        raise Invalid.field("to", "must be after from")
    found = compile(spec.schedule, spec.name).between(
        instant_of(request.start), instant_of(request.end), _MAX_FIRES + 1
    )
    if len(found) > _MAX_FIRES:
        raise Invalid.field("to", f"more than {_MAX_FIRES} fires; choose a shorter range")
    fires = [fire.scheduled for fire in found]
    if request.reprocess != "all":
        undone = _NEVER_RAN if request.reprocess == "missing" else _NEVER_RAN | _ENDED_BADLY
        known = await outcomes(app.pool, request.job_id, request.start, request.end)
        fires = [fire for fire in fires if known.get(fire, set()) <= undone]
    if request.order == "newest_first":
        fires.reverse()
    return fires


async def _steer(
    app: Application,
    request: BackfillRef,
    caller: Caller,
    action: Literal["pause", "resume", "cancel"],
    state: BackfillState,
) -> Backfill:
    stored = await find(app, request.backfill_id, caller)
    now = await with_progress(app, stored)
    if now.status in ("CANCELLED", "COMPLETED"):
        if now.status == state:
            return now
        raise Conflict.because(f"backfill {request.backfill_id} is {now.status}")
    event = BackfillSteered(
        run_id=request.backfill_id, at=now_us(), action=action, actor=caller.actor, cause=secrets.token_hex(8)
    )
    await app.run_requests.append(app.partition_of(request.backfill_id), [event])
    steered = msgspec.structs.replace(stored, state=state)
    await app.control.put(backfill_key(caller.namespace, request.backfill_id), msgspec.json.encode(steered))
    return await with_progress(app, steered)
