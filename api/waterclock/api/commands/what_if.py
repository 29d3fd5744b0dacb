"""What an edit would do to when a job fires. It is checked and refused as an edit is, and nothing is changed."""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec import UNSET, structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands import dependencies, job_specs
from waterclock.api.commands.own_artifacts import check_artifacts
from waterclock.api.errors import Conflict, Invalid, VersionMismatch
from waterclock.api.queries import jobs, workflows
from waterclock.api.queries.schedules import fires_left
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.api.views import job_from_log
from waterclock.core.domain.instants import DAY, datetime_of, instant_of, rfc3339
from waterclock.core.domain.job import aggregate
from waterclock.core.domain.schedule.comparison import Outlook, compare
from waterclock.core.domain.schedule.fires import FireView
from waterclock.core.jetstream.job_definitions import Definition
from waterclock.core.runtime.clock import now_us
from waterclock.proto import answers, methods
from waterclock.proto.commands import JobPatch, JobWhatIf, WorkflowWhatIf
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobRequest, Schedule

_SPAN = 31 * DAY
_LONGEST = timedelta(days=366)
_YEARS = range(1971, 8000)
"""Schedules are worked out for more, but nobody plans so far ahead."""


@handles(methods.JOBS_WHAT_IF)
async def what_if(app: Application, request: JobWhatIf, caller: Caller) -> answers.WhatIf:
    now = now_us()
    start, end = _range(request, now)
    definition = await jobs.find(app, request.job_id, caller)
    edited = await _edited(app, definition, request, now, caller)
    left = await _left(app, definition.job.spec.schedule, request.job_id)
    row = await jobs.read_row(app, request.job_id, caller)
    shown = job_from_log(definition, now, row)
    skipped = frozenset() if row is None else frozenset(map(instant_of, row.skipped))
    compared = compare(
        structs.replace(_as_it_is(definition.job, shown, left), skipped=skipped),
        structs.replace(_as_it_would_be(definition.job, edited, shown, left), skipped=skipped),
        now,
        start,
        end,
    )
    return answers.WhatIf(
        before=_fires(compared.before, skipped),
        after=_fires(compared.after, skipped),
        added=compared.added,
        removed=compared.removed,
        status=shown.status,
        start=datetime_of(start),
        end=datetime_of(compared.end),
        more=compared.more,
    )


@handles(methods.WORKFLOWS_WHAT_IF)
async def what_if_of_workflow(app: Application, request: WorkflowWhatIf, caller: Caller) -> answers.WhatIf:
    await workflows.find(app, request.workflow_id, caller)
    fields = {name: getattr(request, name) for name in JobRequest.__struct_fields__}
    fields |= {"job_id": request.workflow_id, "workflow_id": UNSET}
    edit = JobWhatIf(**fields, if_match=request.if_match, start=request.start, end=request.end)
    return await what_if(app, edit, caller)


def _range(request: JobWhatIf, now: Instant) -> tuple[Instant, Instant]:
    for field, time in (("from", request.start), ("to", request.end)):
        if isinstance(time, datetime) and time.year not in _YEARS:
            raise Invalid.field(field, f"must be between the years {_YEARS[0]} and {_YEARS[-1]}")
    start = instant_of(request.start) if isinstance(request.start, datetime) else now
    end = instant_of(request.end) if isinstance(request.end, datetime) else start + _SPAN
    if end <= start:
        raise Invalid.field("to", "must be after from")
    if datetime_of(end) - datetime_of(start) > _LONGEST:
        raise Invalid.field("to", f"must be at most {_LONGEST.days} days after from")
    return start, end


async def _edited(
    app: Application, definition: Definition, request: JobPatch, now: Instant, caller: Caller
) -> aggregate.Job:
    """The job after the edit, with all that could be said against it said."""
    job = definition.job
    if request.if_match not in (None, definition.version):
        raise VersionMismatch.because(f"job {job.job_id} has changed: the version is {definition.version}")
    spec = job_specs.edit(job.spec, request, now, app.settings, await app.quotas.defaults())
    await dependencies.check(app, job.job_id, spec, announced=False)
    await check_artifacts(app, spec)
    command = aggregate.UpdateJob(spec=spec, again=job_specs.is_meant_anew(request), actor=caller.actor)
    try:
        events = aggregate.decide(job, command, now)
    except aggregate.CommandRefused as refused:
        raise Conflict.because(str(refused)) from refused
    return aggregate.evolve(job, events[-1]) if events else job


async def _left(app: Application, schedule: Schedule, job_id: str) -> int | None:
    if schedule.max_fires is None:
        return None
    with suppress(ReadModelsAway):
        await app.freshness.of_runs(app.partition_of(job_id))
    return await fires_left(app, job_id, schedule.max_fires)


def _as_it_is(job: aggregate.Job, shown: answers.Job, left: int | None) -> Outlook:
    upcoming = None if shown.next_run_at is None else instant_of(shown.next_run_at)
    told = job.due_at_once is not None
    return Outlook(
        schedule=job.spec.schedule,
        name=job.spec.name,
        at_once=upcoming if told else None,
        left=left,
        is_over=shown.status == "COMPLETED" or (told and upcoming is None),
    )


def _as_it_would_be(
    job: aggregate.Job, edited: aggregate.Job, shown: answers.Job, left: int | None
) -> Outlook:
    """A one-shot that keeps its time is as it was; else what the schedule says counts from now on."""
    before, after = job.spec.schedule, edited.spec.schedule
    if after == before and edited.due_now == job.due_now:
        return _as_it_is(job, shown, left)
    if after.max_fires is None:
        left = None
    elif before.max_fires is None or left is None:
        left = after.max_fires  # what ran before the limit was set does not count
    else:
        left = max(0, after.max_fires - (before.max_fires - left))
    return Outlook(schedule=after, name=edited.spec.name, at_once=edited.due_now, left=left)


def _fires(found: list[FireView], skipped: Collection[Instant]) -> list[answers.Fire]:
    """Somebody may have asked to leave one out: that outlasts an edit."""
    times = {rfc3339(time) for time in skipped}
    return [
        answers.Fire(time=fire.time, local=fire.local, note="skipped" if fire.time in times else fire.note)
        for fire in found
    ]
