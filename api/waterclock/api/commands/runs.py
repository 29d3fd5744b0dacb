"""What users ask of runs: start one now, leave one out, cancel one. The partition's owner acts on it."""

import secrets
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Conflict, Invalid
from waterclock.api.queries import jobs, runs
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.core.domain.ids import requested_run_id, run_id
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.schedule.fires import preview
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Fire, Run, RunAccepted
from waterclock.proto.commands import CancelRun, RunNow, SkipNext
from waterclock.proto.events import RunCancelRequested, RunRequested, SkipRequested
from waterclock.proto.verdicts import TERMINAL


@handles(methods.JOBS_RUN_NOW)
async def run_now(app: Application, request: RunNow, caller: Caller) -> RunAccepted:
    run_id, _ = await request_run(app, request, caller)
    return RunAccepted(run_id=run_id)


async def request_run(app: Application, request: RunNow, caller: Caller) -> tuple[str, int]:
    """The id the run will have, and where in `RUNS` it was asked for."""
    definition = await jobs.find(app, request.job_id, caller)
    if definition.job.status == "CANCELLED":
        raise Conflict.because(f"job {request.job_id} is cancelled")
    await app.admission.admit(caller.namespace)
    command = command_id(request.idempotency_key)
    run_id = requested_run_id(request.job_id, command)
    event = RunRequested(
        run_id=run_id,
        at=now_us(),
        version=definition.version,
        actor=caller.actor,
        cause=command,
        parameters=request.parameters or None,
    )
    return run_id, await app.run_requests.append(app.partition_of(run_id), [event])


@handles(methods.JOBS_SKIP)
async def skip(app: Application, request: SkipNext, caller: Caller) -> Fire:
    """Leave out the next fire, or the one at a time."""
    job = (await jobs.find(app, request.job_id, caller)).job
    now = now_us()
    wanted = now + 1 if request.scheduled_time is None else instant_of(request.scheduled_time)
    fires = preview(job.spec.schedule, job.spec.name, wanted, 1)
    if job.status == "CANCELLED" or job.spec.schedule.schedule_type == "IMMEDIATE" or not fires:
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
    await app.run_requests.append(app.partition_of(request.job_id), [event])
    with suppress(ReadModelsAway):
        await app.freshness.of_runs(
            app.partition_of(request.job_id)
        )  # who asks next for the next run sees it
    return Fire(time=fires[0].time, local=fires[0].local, note="skipped")


@handles(methods.RUNS_CANCEL)
async def cancel(app: Application, request: CancelRun, caller: Caller) -> Run:
    """Harmless when the run has ended: the answer says how."""
    run = await runs.find(app, request.run_id, caller)
    if run.status in TERMINAL:
        return run
    event = RunCancelRequested(
        run_id=run.run_id,
        at=now_us(),
        actor=caller.actor,
        cause=secrets.token_hex(8),
        reason=request.note,
        now=request.now,
    )
    await app.run_requests.append(app.partition_of(run.run_id), [event])
    return await runs.find(app, request.run_id, caller)


def command_id(key: str | None) -> str:
    """The same for the same key, so that a repeat names the same run."""
    return secrets.token_hex(8) if key is None else blake2b(key.encode(), digest_size=8).hexdigest()
