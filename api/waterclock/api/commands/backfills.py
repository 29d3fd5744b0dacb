"""Backfills: past fires of a job, run beside its live schedule. The partition's owner runs them; what was asked is
kept in the control bucket, and how far it is comes from the read models."""

import re
import secrets
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.errors import Conflict, Invalid, NotFound
from waterclock.api.queries.jobs import find
from waterclock.api.readmodels import backfills as progress
from waterclock.api.registry import handles
from waterclock.core.domain.ids import keyed_id, run_id, timed_id
from waterclock.core.domain.instants import datetime_of, instant_of
from waterclock.core.domain.schedule.fires import compile
from waterclock.core.domain.schedule.preview import preview
from waterclock.core.jetstream.errors import Conflict as Taken
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Backfill, Fire, Page
from waterclock.proto.commands import BackfillRequest, SkipNext
from waterclock.proto.events import BackfillRequested, BackfillSteered, Instant, SkipRequested
from waterclock.proto.queries import BackfillRef, BackfillsQuery

_MOST = 10_000
_SHOWN = 1000
_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_~=-]{0,255}@backfill-[a-z0-9]{1,40}$")
_NEVER_RAN = {"MISSED", "SKIPPED"}
_ENDED_BADLY = {"FAILED", "TIMED_OUT", "CANCELLED"}

Action = Literal["pause", "resume", "cancel"]
State = Literal["RUNNING", "PAUSED", "CANCELLED"]


class _Asked(Struct, frozen=True, kw_only=True):
    """A backfill as it is kept."""

    backfill_id: str
    job_id: str
    start: Instant
    end: Instant
    max_active: int
    fires: tuple[Instant, ...]
    at: Instant
    state: State = "RUNNING"


@handles(methods.JOBS_BACKFILL)
async def backfill(app: Application, request: BackfillRequest, caller: Caller) -> Backfill:
    definition = await find(app, request.job_id, caller)
    spec = definition.job.spec
    if spec.schedule.schedule_type not in ("CRON", "INTERVAL"):
        raise Invalid.field(
            "job_id", f"{request.job_id} does not recur: there are no past times to run it for"
        )
    if request.end <= request.start:
        raise Invalid.field("to", "must be after from")
    found = compile(spec.schedule, spec.name).between(
        instant_of(request.start), instant_of(request.end), _MOST + 1
    )
    if len(found) > _MOST:
        raise Invalid.field("to", f"more than {_MOST} fires; choose a shorter range")
    fires = await _to_run(app, request, [fire.scheduled for fire in found])
    if request.order == "newest_first":
        fires.reverse()
    now = now_us()
    key = request.idempotency_key
    suffix = timed_id(now, secrets.randbits(50)) if key is None else keyed_id(request.job_id, key)
    asked = _Asked(
        backfill_id=f"{request.job_id}@backfill-{suffix}",
        job_id=request.job_id,
        start=instant_of(request.start),
        end=instant_of(request.end),
        max_active=request.max_active,
        fires=tuple(fires),
        at=now,
    )
    if request.dry_run:
        return msgspec.structs.replace(_shown(asked, progress.NONE), backfill_id=None, status="PLANNED")
    if not fires:
        return msgspec.structs.replace(_shown(asked, progress.NONE), status="COMPLETED")
    event = BackfillRequested(
        run_id=asked.backfill_id,
        at=now,
        version=definition.version,
        fires=asked.fires,
        max_active=request.max_active,
        actor=caller.actor,
        cause=suffix,
    )
    try:
        await app.control.create(_key(caller.namespace, asked.backfill_id), msgspec.json.encode(asked))
    except Taken:
        return await _now(app, await _find(app, asked.backfill_id, caller))
    await app.requests.append(app.partition_of(request.job_id), [event])
    return _shown(asked, progress.NONE)


@handles(methods.BACKFILLS_LIST)
async def list_backfills(app: Application, request: BackfillsQuery, caller: Caller) -> Page[Backfill]:
    entries = await app.control.scan(_key(caller.namespace, "*"))
    asked = [msgspec.json.decode(entry.value, type=_Asked) for entry in entries]
    kept = [one for one in asked if request.job_id in (None, one.job_id)]
    kept.sort(key=lambda one: one.at, reverse=True)
    return Page(items=[await _now(app, one) for one in kept])


@handles(methods.BACKFILLS_GET)
async def get(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    await app.freshness.of_runs(app.partition_of(request.backfill_id))
    return await _now(app, await _find(app, request.backfill_id, caller))


@handles(methods.BACKFILLS_PAUSE)
async def pause(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    return await _steer(app, request, caller, "pause", "PAUSED")


@handles(methods.BACKFILLS_RESUME)
async def resume(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    return await _steer(app, request, caller, "resume", "RUNNING")


@handles(methods.BACKFILLS_CANCEL)
async def cancel(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    return await _steer(app, request, caller, "cancel", "CANCELLED")


@handles(methods.JOBS_SKIP)
async def skip(app: Application, request: SkipNext, caller: Caller) -> Fire:
    """Leave out the next occurrence, or the one at a time."""
    job = (await find(app, request.job_id, caller)).job
    now = now_us()
    wanted = now + 1 if request.scheduled_time is None else instant_of(request.scheduled_time)
    fires = preview(job.spec.schedule, job.spec.name, wanted, 1)
    if job.status == "CANCELLED" or not fires:
        raise Conflict.because(f"job {request.job_id} will not fire again")
    scheduled = instant_of(datetime.fromisoformat(fires[0].time))
    if request.scheduled_time is not None and scheduled != wanted:
        raise Invalid.field("scheduled_time", f"{request.job_id} is not due then, but at {fires[0].time}")
    if scheduled <= now:
        raise Conflict.because(f"{fires[0].time} has passed")
    event = SkipRequested(
        run_id=run_id(request.job_id, scheduled),
        at=now,
        scheduled=scheduled,
        note=request.note,
        actor=caller.actor,
    )
    await app.requests.append(app.partition_of(request.job_id), [event])
    return Fire(time=fires[0].time, local=fires[0].local, note=fires[0].note)


async def _to_run(app: Application, request: BackfillRequest, fires: list[Instant]) -> list[Instant]:
    """The fires that are to run, given how those times went before."""
    if request.reprocess == "all":
        return fires
    undone = _NEVER_RAN if request.reprocess == "missing" else _NEVER_RAN | _ENDED_BADLY
    outcomes = await progress.outcomes(app.pool, request.job_id, request.start, request.end)
    return [fire for fire in fires if outcomes.get(fire, set()) <= undone]


async def _find(app: Application, backfill_id: str, caller: Caller) -> _Asked:
    entry = await app.control.get(_key(caller.namespace, backfill_id)) if _ID.match(backfill_id) else None
    if entry is None:
        raise NotFound.because(f"there is no backfill {backfill_id}")
    return msgspec.json.decode(entry.value, type=_Asked)


async def _steer(
    app: Application, request: BackfillRef, caller: Caller, action: Action, state: State
) -> Backfill:
    asked = await _find(app, request.backfill_id, caller)
    now = await _now(app, asked)
    if now.status in ("CANCELLED", "COMPLETED"):
        if now.status == state:
            return now
        raise Conflict.because(f"backfill {request.backfill_id} is {now.status}")
    event = BackfillSteered(
        run_id=request.backfill_id, at=now_us(), action=action, actor=caller.actor, cause=secrets.token_hex(8)
    )
    await app.requests.append(app.partition_of(request.backfill_id), [event])
    steered = msgspec.structs.replace(asked, state=state)
    await app.control.put(_key(caller.namespace, request.backfill_id), msgspec.json.encode(steered))
    return await _now(app, steered)


async def _now(app: Application, asked: _Asked) -> Backfill:
    return _shown(asked, await progress.of_backfill(app.pool, asked.backfill_id))


def _shown(asked: _Asked, runs: progress.Progress) -> Backfill:
    over = runs.done + runs.failed >= len(asked.fires)
    return Backfill(
        backfill_id=asked.backfill_id,
        job_id=asked.job_id,
        status="COMPLETED" if over else asked.state,
        start=datetime_of(asked.start),
        end=datetime_of(asked.end),
        max_active=asked.max_active,
        total=len(asked.fires),
        done=runs.done,
        failed=runs.failed,
        active=runs.active,
        fires=[datetime_of(fire) for fire in asked.fires[:_SHOWN]],
        created_at=datetime_of(asked.at),
    )


def _key(namespace: str, backfill_id: str) -> str:
    return f"backfill.{namespace}.{backfill_id}"
