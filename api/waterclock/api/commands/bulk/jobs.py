"""Many jobs and workflows paused, resumed, cancelled or run at once."""

import secrets
from collections.abc import AsyncGenerator, Collection

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands.bulk.pages import (
    PAGE,
    Outcome,
    Page,
    append,
    carry_out,
    check_choice,
    recorded,
    slices,
    together,
)
from waterclock.api.commands.runs import command_id
from waterclock.api.errors import Conflict, NotFound, Refused
from waterclock.api.queries import jobs
from waterclock.api.readmodels import jobs as rows
from waterclock.api.readmodels.paging import decode_cursor, encode_cursor
from waterclock.api.registry import handles
from waterclock.core.domain.ids import requested_run_id
from waterclock.core.domain.job import aggregate
from waterclock.core.jetstream.errors import Conflict as Overtaken
from waterclock.core.jetstream.job_definitions import Definition
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import BulkResult
from waterclock.proto.commands import BulkJobs
from waterclock.proto.events import RunRequested
from waterclock.proto.verdicts import JobState

_FOUND: dict[str, tuple[JobState, ...]] = {
    "pause": ("SCHEDULED",),
    "resume": ("PAUSED",),
    "cancel": ("SCHEDULED", "PAUSED"),
    "runNow": ("SCHEDULED", "PAUSED"),
}
"""Which jobs a filter finds for an action: those that it changes something for."""
_ALSO_ENDED = ("cancel", "runNow")
"""These mean something for what is COMPLETED, too, but only where the filter says so."""


@handles(methods.JOBS_BULK)
async def bulk_jobs(app: Application, request: BulkJobs, caller: Caller) -> BulkResult:
    check_choice(request, "jobs")
    if request.dry_run:
        return await _dry_run(app, request, caller)
    act = _run_now if request.action == "runNow" else _change
    async with recorded(app, request, caller):
        return await carry_out(
            _pages(app, request, caller),
            lambda page, outcome: act(app, request, caller, page, outcome),
            request.cursor,
            Outcome(caller.namespace),
        )


def _statuses(request: BulkJobs) -> Collection[JobState]:
    assert request.filter is not None
    found = _FOUND[request.action]
    if request.action in _ALSO_ENDED and request.filter.status == "COMPLETED":
        return (*found, "COMPLETED")
    return found


async def _pages(app: Application, request: BulkJobs, caller: Caller) -> AsyncGenerator[Page[str], None]:
    if request.filter is None:
        for named in slices(request.ids, request.cursor):
            yield named
        return
    if request.cursor is None:
        await app.freshness.of_own_definitions()
    after = None if request.cursor is None else decode_cursor(request.cursor, tuple[str])[0]
    more = True
    while more:
        found = await rows.matching(
            app.pool, caller.namespace, request.filter, _statuses(request), after, PAGE + 1
        )
        more, page = len(found) > PAGE, found[:PAGE]
        if page:
            after = page[-1]
            yield page, encode_cursor((after,)) if more else None


def _command(request: BulkJobs, caller: Caller) -> aggregate.JobCommand:
    actor, cause = caller.actor, secrets.token_hex(8)
    match request.action:
        case "pause":
            return aggregate.PauseJob(note=request.note, actor=actor, cause=cause)
        case "resume":
            return aggregate.ResumeJob(missed=request.missed, actor=actor, cause=cause)
        case "cancel":
            return aggregate.CancelJob(note=request.note, actor=actor, cause=cause)
        case "runNow":
            raise AssertionError("that is no change of a definition")


async def _change(
    app: Application, request: BulkJobs, caller: Caller, page: list[str], outcome: Outcome
) -> None:
    command = _command(request, caller)

    async def change(job_id: str) -> None:
        try:
            definition = await jobs.find(app, job_id, caller)
            changed = await app.definitions.change(definition, lambda _: command)
        except (NotFound, aggregate.CommandRefused, Overtaken) as refused:
            outcome.refuse(job_id, str(refused))
        else:
            app.freshness.wrote(app.partition_of(job_id), changed.version)
            outcome.done += 1

    await together(change, page)


async def _run_now(
    app: Application, request: BulkJobs, caller: Caller, page: list[str], outcome: Outcome
) -> None:
    """All of a page are accepted, or none: one that was begun would be begun again."""
    found: list[Definition] = []
    refusals: dict[str, str] = {}

    async def look(job_id: str) -> None:
        try:
            found.append(await _startable(app, job_id, caller))
        except Refused as refused:
            refusals[job_id] = str(refused)

    await together(look, page)
    await app.admission.admit(caller.namespace, len(found))
    for job_id, reason in refusals.items():
        outcome.refuse(job_id, reason)
    now, command = now_us(), command_id(request.idempotency_key)
    await append(
        app,
        (
            RunRequested(
                run_id=requested_run_id(definition.job.job_id, command),
                at=now,
                version=definition.version,
                actor=caller.actor,
                cause=command,
            )
            for definition in found
        ),
    )
    outcome.done += len(found)


async def _startable(app: Application, job_id: str, caller: Caller) -> Definition:
    definition = await jobs.find(app, job_id, caller)
    if definition.job.status == "CANCELLED":
        raise Conflict.because(f"job {job_id} is cancelled")
    return definition


async def _dry_run(app: Application, request: BulkJobs, caller: Caller) -> BulkResult:
    if request.filter is not None:
        await app.freshness.of_own_definitions()
        matched = await rows.count_matching(app.pool, caller.namespace, request.filter, _statuses(request))
        return BulkResult(matched=matched, done=0)
    outcome = Outcome(caller.namespace)

    async def look(job_id: str) -> None:
        try:
            if request.action == "runNow":
                await _startable(app, job_id, caller)
            else:
                job = (await jobs.find(app, job_id, caller)).job
                aggregate.decide(job, _command(request, caller), now_us())
        except (Refused, aggregate.CommandRefused) as refused:
            outcome.refuse(job_id, str(refused))
        else:
            outcome.matched += 1

    await together(look, list(dict.fromkeys(request.ids)))
    return outcome.answer()
