"""Changing jobs: each change is a compare-and-set on the definition in the log."""

import secrets
from collections.abc import Callable

from msgspec import UNSET, structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands import dependencies, job_specs
from waterclock.api.commands.own_artifacts import check_artifacts
from waterclock.api.errors import Conflict, VersionMismatch
from waterclock.api.queries import jobs
from waterclock.api.queries.definitions import versions
from waterclock.api.registry import handles
from waterclock.core.domain.job import aggregate
from waterclock.core.domain.job.clear_secrets import clear_secrets
from waterclock.core.jetstream.errors import Conflict as Overtaken
from waterclock.core.runtime.clock import now_us
from waterclock.proto import answers, methods
from waterclock.proto.commands import CancelJob, JobPatch, PauseJob, ResumeJob, Rollback

Command = Callable[[aggregate.Job], aggregate.JobCommand]


@handles(methods.JOBS_UPDATE)
async def update(app: Application, request: JobPatch, caller: Caller) -> answers.Job:
    def command(job: aggregate.Job) -> aggregate.JobCommand:
        spec = job_specs.edit(job.spec, request, now_us(), app.settings, defaults)
        return aggregate.UpdateJob(spec=spec, again=again, actor=caller.actor, cause=secrets.token_hex(8))

    defaults = await app.quotas.defaults()
    again = job_specs.is_meant_anew(request)
    definition = await jobs.find(app, request.job_id, caller)
    edited = job_specs.edit(definition.job.spec, request, now_us(), app.settings, defaults)
    await dependencies.check(app, request.job_id, edited)
    await check_artifacts(app, edited)
    changed = await change(app, request.job_id, caller, command, request.if_match)
    await dependencies.register(app, request.job_id, changed.version, edited)
    return structs.replace(changed, warnings=clear_secrets(edited) or UNSET)


@handles(methods.JOBS_ROLLBACK)
async def rollback(app: Application, request: Rollback, caller: Caller) -> answers.Job:
    """An edit as any other, but that all of the definition is said by a version of before."""

    def command(job: aggregate.Job) -> aggregate.JobCommand:
        spec = structs.replace(restored, idempotency_key=job.spec.idempotency_key)
        return aggregate.UpdateJob(
            spec=spec, restores=request.version, actor=caller.actor, cause=secrets.token_hex(8)
        )

    stored = await jobs.find(app, request.job_id, caller)
    restored = (await versions.definition_at(app, request.job_id, request.version, caller)).job.spec
    job_specs.check_schedule(stored.job.spec, restored, now_us())
    await dependencies.check(app, request.job_id, restored)
    await check_artifacts(app, restored)
    changed = await change(app, request.job_id, caller, command, request.if_match)
    await dependencies.register(app, request.job_id, changed.version, restored)
    return structs.replace(changed, warnings=clear_secrets(restored) or UNSET)


@handles(methods.JOBS_PAUSE)
async def pause(app: Application, request: PauseJob, caller: Caller) -> answers.Job:
    command = aggregate.PauseJob(note=request.note, actor=caller.actor, cause=secrets.token_hex(8))
    return await change(app, request.job_id, caller, lambda _: command, request.if_match)


@handles(methods.JOBS_RESUME)
async def resume(app: Application, request: ResumeJob, caller: Caller) -> answers.Job:
    command = aggregate.ResumeJob(missed=request.missed, actor=caller.actor, cause=secrets.token_hex(8))
    return await change(app, request.job_id, caller, lambda _: command, request.if_match)


@handles(methods.JOBS_CANCEL)
async def cancel(app: Application, request: CancelJob, caller: Caller) -> answers.Job:
    command = aggregate.CancelJob(note=request.note, actor=caller.actor, cause=secrets.token_hex(8))
    return await change(app, request.job_id, caller, lambda _: command, request.if_match)


async def change(
    app: Application, job_id: str, caller: Caller, command: Command, version: int | None
) -> answers.Job:
    """`version`: the only one that may be changed; None: whichever there is."""
    definition = await jobs.find(app, job_id, caller)
    try:
        changed = await app.definitions.change(definition, command, only_version=version)
    except Overtaken as error:
        raise VersionMismatch.because(f"job {job_id} has changed: {error}") from error
    except aggregate.CommandRefused as refused:
        raise Conflict.because(str(refused)) from refused
    app.freshness.wrote(app.partition_of(job_id), changed.version)
    return await jobs.job_answer(app, changed, caller)
