"""Changing jobs and steering runs. A definition changes by compare-and-set; a run by asking its partition's owner."""

import secrets
from collections.abc import Callable
from hashlib import blake2b

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.commands import definitions, dependencies
from waterclock.api.errors import Conflict, VersionMismatch
from waterclock.api.queries import jobs, runs
from waterclock.api.readmodels import runs as rows
from waterclock.api.registry import handles
from waterclock.core.domain.ids import requested_run_id
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.job import aggregate
from waterclock.core.jetstream.errors import Conflict as Overtaken
from waterclock.core.runtime.clock import now_us
from waterclock.proto import answers, methods
from waterclock.proto.commands import CancelJob, CancelRun, JobPatch, PauseJob, ResumeJob, RetryRun, RunNow
from waterclock.proto.events import RunCancelRequested, RunRequested, RunRetryRequested
from waterclock.proto.verdicts import TERMINAL

Command = Callable[[aggregate.Job], aggregate.JobCommand]


@handles(methods.JOBS_UPDATE)
async def update(app: Application, request: JobPatch, caller: Caller) -> answers.Job:
    def command(job: aggregate.Job) -> aggregate.JobCommand:
        spec = definitions.edited(job.spec, request, now_us(), app.settings)
        return aggregate.UpdateJob(spec=spec, actor=caller.actor, cause=_drawn())

    definition = await jobs.find(app, request.job_id, caller)
    edited = definitions.edited(definition.job.spec, request, now_us(), app.settings)
    await dependencies.check(app, request.job_id, edited)
    changed = await change(app, request.job_id, caller, command, request.if_match)
    await dependencies.register(app, request.job_id, changed.version, edited)
    return changed


@handles(methods.JOBS_PAUSE)
async def pause(app: Application, request: PauseJob, caller: Caller) -> answers.Job:
    command = aggregate.PauseJob(note=request.note, actor=caller.actor, cause=_drawn())
    return await change(app, request.job_id, caller, lambda _: command, request.if_match)


@handles(methods.JOBS_RESUME)
async def resume(app: Application, request: ResumeJob, caller: Caller) -> answers.Job:
    command = aggregate.ResumeJob(missed=request.missed, actor=caller.actor, cause=_drawn())
    return await change(app, request.job_id, caller, lambda _: command, request.if_match)


@handles(methods.JOBS_CANCEL)
async def cancel(app: Application, request: CancelJob, caller: Caller) -> answers.Job:
    command = aggregate.CancelJob(note=request.note, actor=caller.actor, cause=_drawn())
    return await change(app, request.job_id, caller, lambda _: command, request.if_match)


@handles(methods.JOBS_RUN_NOW)
async def run_now(app: Application, request: RunNow, caller: Caller) -> answers.RunAccepted:
    run_id, _ = await ask_for_run(app, request, caller)
    return answers.RunAccepted(run_id=run_id)


async def ask_for_run(app: Application, request: RunNow, caller: Caller) -> tuple[str, int]:
    """The id the run will have, and where in `RUNS` it was asked for."""
    definition = await jobs.find(app, request.job_id, caller)
    if definition.job.status == "CANCELLED":
        raise Conflict.because(f"job {request.job_id} is cancelled")
    command = _command_id(request.idempotency_key)
    run_id = requested_run_id(request.job_id, command)
    event = RunRequested(
        run_id=run_id,
        at=now_us(),
        version=definition.version,
        actor=caller.actor,
        cause=command,
        parameters=request.parameters or None,
    )
    return run_id, await app.requests.append(app.partition_of(run_id), [event])


@handles(methods.RUNS_CANCEL)
async def cancel_run(app: Application, request: CancelRun, caller: Caller) -> answers.Run:
    """Harmless when the run has ended: the answer says how."""
    run = await runs.find(app, request.run_id, caller)
    if run.status in TERMINAL:
        return run
    event = RunCancelRequested(
        run_id=run.run_id,
        at=now_us(),
        actor=caller.actor,
        cause=_drawn(),
        reason=request.note,
        now=request.now,
    )
    await app.requests.append(app.partition_of(run.run_id), [event])
    return await runs.find(app, request.run_id, caller)


@handles(methods.RUNS_RETRY)
async def retry(app: Application, request: RetryRun, caller: Caller) -> answers.Run:
    run = await runs.find(app, request.run_id, caller)
    if run.status not in TERMINAL or run.status == "SUCCESS":
        raise Conflict.because(
            f"run {run.run_id} is {run.status}; only one that ended badly can be tried again"
        )
    found = await rows.redrivable(app.pool, caller.namespace, [run.run_id])
    await redrive(app, found, caller)
    return await runs.find(app, request.run_id, caller)


async def redrive(app: Application, found: list[rows.Redrivable], caller: Caller) -> None:
    """Asks for another attempt of each. A wave and what is part of one are run again by their wave."""
    from waterclock.api.queries import workflow_runs

    cause, now = _drawn(), now_us()
    by_partition: dict[int, list[RunRetryRequested]] = {}
    rest = await workflow_runs.run_again(app, found, caller)
    for run in rest:
        event = RunRetryRequested(
            run_id=run.run_id,
            at=now,
            version=run.version or 0,
            scheduled=instant_of(run.scheduled_time),
            attempt=run.attempt_number,
            actor=caller.actor,
            cause=cause,
            parent=run.workflow_run_id,
            epoch=run.epoch,
        )
        by_partition.setdefault(app.partition_of(run.run_id), []).append(event)
    for partition, events in by_partition.items():
        await app.requests.append(partition, events)


async def change(
    app: Application, job_id: str, caller: Caller, command: Command, version: int | None
) -> answers.Job:
    definition = await jobs.find(app, job_id, caller)
    try:
        changed = await app.definitions.change(definition, command, only_version=version)
    except Overtaken as error:
        raise VersionMismatch.because(f"job {job_id} has changed: {error}") from error
    except aggregate.Refused as refused:
        raise Conflict.because(str(refused)) from refused
    app.freshness.wrote(app.partition_of(job_id), changed.version)
    return await jobs.shown(app, changed, caller)


def _command_id(key: str | None) -> str:
    """The same for the same key, so that a repeat names the same run."""
    return _drawn() if key is None else blake2b(key.encode(), digest_size=8).hexdigest()


def _drawn() -> str:
    return secrets.token_hex(8)
