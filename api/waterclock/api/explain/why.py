"""`why`: the log's own account of a run, or of a moment at which a job did or did not run."""

from datetime import UTC, datetime, timedelta

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Invalid, NotFound
from waterclock.api.explain.circumstances import Circumstances, circumstances
from waterclock.api.queries import fleet, jobs, workflows
from waterclock.api.queries.changes import change_of_run
from waterclock.api.queries.history import job_events, job_records, run_records
from waterclock.api.registry import handles
from waterclock.core.domain import ids
from waterclock.core.domain.explain import explanation
from waterclock.core.domain.explain.explanation import Explanation, Recorded
from waterclock.core.domain.explain.why_moment import explain_moment, is_pending
from waterclock.core.domain.explain.why_run import explain_run
from waterclock.core.domain.ids import namespace_of
from waterclock.core.domain.instants import SECOND, datetime_of, instant_of
from waterclock.core.domain.system_load import system_load
from waterclock.core.jetstream.job_definitions import Definition
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Change, DecidedBy, Delay, Page, Step, Why
from waterclock.proto.events import Cursor, Instant
from waterclock.proto.queries import RunRef, WhyQuery

_BEFORE = timedelta(minutes=10)
"""How far before a moment its history is read: enough for what led to it, as a rule."""
_AFTER = 60 * SECOND
"""How far a partition must be decided beyond a moment for the log to hold all about it."""
_NOTHING_AROUND = Circumstances()


@handles(methods.RUNS_EVENTS)
async def events(app: Application, request: RunRef, caller: Caller) -> Page[Change]:
    return Page(
        items=[
            msgspec.structs.replace(change_of_run(record.event), position=f"0-{record.sequence}")
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
        waiting = await workflows.why_waiting(app, request.run_id, caller)
        if waiting is None:
            undecided = await _undecided(app, request.run_id, caller)
            if undecided is None:
                raise
            return undecided
        workflow_run_id, reason = waiting
        answer = f"{request.run_id} has not begun: {reason}. It is part of {workflow_run_id}."
        return Why(subject=request.run_id, answer=answer, steps=[], reason="under_way")
    definitions = await job_events(app, ids.job_of(request.run_id))
    found = explain_run(request.run_id, records, definitions, now_us())
    return _answer(found, await circumstances(app, found, ids.job_of(request.run_id), caller))


@handles(methods.JOBS_WHY)
async def why_job(app: Application, request: WhyQuery, caller: Caller) -> Why:
    if request.job_id is None:
        raise Invalid.field("job_id", "required")
    definition = await jobs.find(app, request.job_id, caller)
    found, _ = await _moment(app, request.job_id, request.at or _asked_about(definition))
    if request.at is not None and found.run_id is None and found.reason != "undecided":
        return _answer(found)  # what is so now does not explain a moment that is over
    return _answer(found, await circumstances(app, found, request.job_id, caller))


async def _undecided(app: Application, run_id: str, caller: Caller) -> Why | None:
    """Of a run that is due and that no owner has come to yet; None if there is no such run."""
    scheduled = ids.scheduled_of(run_id)
    if scheduled is None or ids.part_path(run_id):
        return None
    try:
        await jobs.find(app, ids.job_of(run_id), caller)
    except NotFound:
        return None
    found, is_open = await _moment(app, ids.job_of(run_id), datetime_of(scheduled))
    if found.reason != "undecided" or not is_open:
        return None
    around = await circumstances(app, found, ids.job_of(run_id), caller)
    return _answer(msgspec.structs.replace(found, subject=run_id), around)


async def _moment(app: Application, job_id: str, at: datetime) -> tuple[Explanation, bool]:
    """What explains it, and whether it may be that nobody has come that far: else its events have left the log."""
    definitions = await job_events(app, job_id)
    moment, now = instant_of(at), now_us()
    jitter = max((event.spec.schedule.jitter_seconds for _, event in definitions), default=0)
    settled = moment + _AFTER + int(jitter * SECOND)
    version = max((version for version, event in definitions if event.at < moment + SECOND), default=0)

    def enough(cursor: Cursor, records: list[Recorded]) -> bool:
        """All is decided, and a run that there was has ended."""
        if cursor.time <= settled or cursor.settled_jobs < version:
            return False
        return explain_moment(job_id, definitions, records, moment, now).reason != "under_way"

    records = await job_records(app, job_id, min(at, datetime.now(UTC)) - _BEFORE, enough)
    schedulers = await fleet.schedulers(app.control)
    owner = fleet.owners(schedulers, app.settings.partitions).get(app.partition_of(job_id))
    behind = system_load(schedulers, now).behind_seconds
    if owner is None:
        found = explain_moment(job_id, definitions, records, moment, now, None, behind)
        return found, is_pending(moment, now, behind)
    beat, held = owner
    decided = fleet.decided_until(held, beat.at)
    settled_jobs = None if held.settled < 0 else held.settled
    found = explain_moment(
        job_id, definitions, records, moment, now, decided, behind, held.backlog, settled_jobs
    )
    return found, is_pending(moment, now, behind) or moment > decided


def _asked_about(definition: Definition) -> datetime:
    """Which moment, where none is named: the only one of a job that runs once, when it has come; else now."""
    now, schedule = datetime.now(UTC), definition.job.spec.schedule
    if definition.job.due_at_once is not None:
        return datetime_of(definition.job.due_at_once)
    return now if schedule.schedule_time is None else min(now, schedule.schedule_time)


async def _history(app: Application, run_id: str, caller: Caller) -> list[Recorded]:
    """A run's events, straight from the log: right after they happened, and with the read models away."""
    records = [] if namespace_of(run_id) != caller.namespace else await run_records(app, run_id)
    if not records:
        raise NotFound.because(f"there is no run {run_id}, or the log no longer tells of it")
    return records


def _answer(found: Explanation, around: Circumstances = _NOTHING_AROUND) -> Why:
    defined = found.definition
    return Why(
        subject=found.subject,
        answer=found.answer + around.text,
        waits_for=around.waits_for,
        missing=around.missing,
        steps=_steps(found.steps),
        reason=found.reason,
        run_id=found.run_id,
        delays=[
            Delay(
                kind=delay.kind,
                start=datetime_of(delay.start),
                end=datetime_of(delay.end),
                seconds=(delay.end - delay.start) / SECOND,
                share=round(delay.share, 4),
                attempt=delay.attempt,
                what=delay.what,
            )
            for delay in found.delays
        ],
        definition=None
        if defined is None
        else DecidedBy(
            version=defined.version,
            defined_at=datetime_of(defined.at),
            actor=defined.actor,
            note=defined.note,
            policy=defined.policy,
        ),
        owner=found.decided_by,
        executors=list(found.executors),
        previous_fire=None if found.previous is None else datetime_of(found.previous),
        next_fire=None if found.following is None else datetime_of(found.following),
    )


def _steps(happened: tuple[explanation.Step, ...]) -> list[Step]:
    steps: list[Step] = []
    before: Instant | None = None
    for step in happened:
        gap = None if before is None else (step.at - before) / SECOND
        position = "" if step.sequence is None else str(step.sequence)
        steps.append(
            Step(at=datetime_of(step.at), what=step.what, position=position, after_seconds=gap, by=step.by)
        )
        before = step.at
    return steps
