"""Why: the log's own account of runs and of moments without one. And the proof that none is missing."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec

from waterclock.api.application import Application
from waterclock.api.caller import Caller
from waterclock.api.changes import changes_of_run
from waterclock.api.errors import Invalid
from waterclock.api.explain import why
from waterclock.api.explain.auditing import audited
from waterclock.api.explain.history import job_events, job_run_events, run_events
from waterclock.api.methods import jobs, runs
from waterclock.api.readmodels import runs as rows
from waterclock.api.registry import handles, streams
from waterclock.core.domain.instants import instant_of
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods, names
from waterclock.proto.answers import Audit, Change, Page, Why
from waterclock.proto.queries import AuditQuery, RunRef, WhyQuery

_AROUND = timedelta(hours=1)


@handles(methods.RUNS_EVENTS)
async def events(app: Application, request: RunRef, caller: Caller) -> Page[Change]:
    await runs.find(app, request.run_id, caller)
    after = await rows.first_sequence(app.pool, request.run_id) - 1
    found = await run_events(app, request.run_id, after)
    return Page(
        items=[
            msgspec.structs.replace(changes_of_run(event), position=f"0-{sequence}")
            for sequence, event in found
        ]
    )


@handles(methods.RUNS_WHY)
async def why_run(app: Application, request: WhyQuery, caller: Caller) -> Why:
    if request.run_id is None:
        raise Invalid.field("run_id", "required")
    await runs.find(app, request.run_id, caller)
    after = await rows.first_sequence(app.pool, request.run_id) - 1
    found = await run_events(app, request.run_id, after)
    return why.of_run(request.run_id, found, await job_events(app, names.job_of(request.run_id)))


@handles(methods.JOBS_WHY)
async def why_job(app: Application, request: WhyQuery, caller: Caller) -> Why:
    if request.job_id is None:
        raise Invalid.field("job_id", "required")
    await jobs.find(app, request.job_id, caller)
    at = request.at or datetime.now(UTC)
    found = await job_run_events(app, request.job_id, at - _AROUND)
    history = await job_events(app, request.job_id)
    return why.of_moment(request.job_id, history, found, instant_of(at), now_us())


@streams(methods.AUDIT_RUN)
async def audit(app: Application, request: AuditQuery, caller: Caller) -> AsyncIterator[Audit]:
    async for report in audited(app, request, caller.namespace):
        yield report
