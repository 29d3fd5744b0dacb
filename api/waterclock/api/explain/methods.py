"""Why: the log's own account of runs and of moments without one. And the proof that none is missing."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.auth.namespaces import namespace_of
from waterclock.api.errors import Invalid, NotFound
from waterclock.api.explain import answers
from waterclock.api.explain.audit import audited
from waterclock.api.explain.history import job_events, job_records, run_records
from waterclock.api.queries import fleet, jobs, workflow_runs
from waterclock.api.queries.changes import changes_of_run
from waterclock.api.registry import handles, streams
from waterclock.core.domain.explain import why_moment
from waterclock.core.domain.explain import why_run as explain_run
from waterclock.core.domain.explain.explanation import Recorded
from waterclock.core.domain.instants import SECOND, datetime_of, instant_of
from waterclock.core.jetstream.definitions import Definition
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods, names
from waterclock.proto.answers import Audit, Change, Page, Why
from waterclock.proto.events import Instant
from waterclock.proto.queries import AuditQuery, RunRef, WhyQuery

_BEFORE = timedelta(minutes=10)
"""How far before a moment its history is read: enough for what led to it, as a rule."""
_AFTER = 60 * SECOND
"""How far a partition must be decided beyond a moment for the log to have said all about it."""


@handles(methods.RUNS_EVENTS)
async def events(app: Application, request: RunRef, caller: Caller) -> Page[Change]:
    return Page(
        items=[
            msgspec.structs.replace(changes_of_run(record.event), position=f"0-{record.sequence}")
            for record in await _history(app, request.run_id, caller)
        ]
    )


@handles(methods.RUNS_WHY)
async def why_run(app: Application, request: WhyQuery, caller: Caller) -> Why:
    if request.run_id is None:
        raise Invalid.field("run_id", "required")
    try:
        records = await _history(app, request.run_id, caller)
    except NotFound:
        waiting = await workflow_runs.why_waiting(app, request.run_id, caller)
        if waiting is None:
            raise
        wave, reason = waiting
        answer = f"{request.run_id} has not begun: {reason}. It is part of {wave}."
        return Why(subject=request.run_id, answer=answer, steps=[], reason="under_way")
    definitions = await job_events(app, names.job_of(request.run_id))
    return answers.explanation(explain_run.of_run(request.run_id, records, definitions, now_us()))


@handles(methods.JOBS_WHY)
async def why_job(app: Application, request: WhyQuery, caller: Caller) -> Why:
    if request.job_id is None:
        raise Invalid.field("job_id", "required")
    definition = await jobs.find(app, request.job_id, caller)
    at = request.at or _asked_about(definition)
    definitions = await job_events(app, request.job_id)
    moment, now = instant_of(at), now_us()
    jitter = max((event.spec.schedule.jitter_seconds for _, event in definitions), default=0)
    said = moment + _AFTER + int(jitter * SECOND)

    def enough(decided: Instant, records: list[Recorded]) -> bool:
        """All is decided, and a run that there was has ended."""
        if decided <= said:
            return False
        return (
            why_moment.of_moment(request.job_id or "", definitions, records, moment, now).reason
            != "under_way"
        )

    records = await job_records(app, request.job_id, min(at, datetime.now(UTC)) - _BEFORE, enough)
    partition = app.partition_of(request.job_id)
    owned = (await fleet.partitions(app.control, app.settings.partitions))[partition]
    decided = None if owned.cursor is None else instant_of(owned.cursor)
    found = why_moment.of_moment(request.job_id, definitions, records, moment, now, decided)
    return answers.explanation(found)


def _asked_about(definition: Definition) -> datetime:
    """Which moment, where none is named: the only one of a job that runs once, when it has come; else now."""
    now, schedule = datetime.now(UTC), definition.job.spec.schedule
    if schedule.schedule_type == "IMMEDIATE":
        return datetime_of(definition.job.created_at)
    return now if schedule.schedule_time is None else min(now, schedule.schedule_time)


@streams(methods.AUDIT_RUN)
async def audit(app: Application, request: AuditQuery, caller: Caller) -> AsyncIterator[Audit]:
    async for report in audited(app, request, caller.namespace):
        yield report


async def _history(app: Application, run_id: str, caller: Caller) -> list[Recorded]:
    """A run's events, straight from the log: right after they happened, and with the read models away."""
    records = [] if namespace_of(run_id) != caller.namespace else await run_records(app, run_id)
    if not records:
        raise NotFound.because(f"there is no run {run_id}, or the log no longer tells of it")
    return records
