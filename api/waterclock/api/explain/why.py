"""The chain of events behind a run, or behind a moment at which nothing ran."""

from collections.abc import Sequence

from waterclock.api.changes import status_after
from waterclock.api.explain import words
from waterclock.api.explain.history import Numbered
from waterclock.core.domain.audit import spans
from waterclock.core.domain.instants import SECOND, datetime_of, rfc3339
from waterclock.core.domain.schedule.fires import compile
from waterclock.proto.answers import Step, Why
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobEvent,
    JobPaused,
    JobUpdated,
    RunsMissed,
)
from waterclock.proto.spec import Schedule

JobHistory = Sequence[tuple[int, JobEvent]]

_SECONDS_AROUND = 1
"""A moment given in whole seconds means the second."""


def of_run(run_id: str, events: Sequence[Numbered], job: JobHistory) -> Why:
    """Its definition, then everything that happened to it."""
    began = events[0][1].at if events else 0
    versions = {getattr(event, "version", None) for _, event in events}
    defined = [(version, event) for version, event in job if version in versions and event.at <= began]
    steps = _steps(
        [(event.at, words.of_job(event, version), "") for version, event in defined[-1:]]
        + [(event.at, words.of_run(event), str(sequence)) for sequence, event in events]
    )
    last = next((event for _, event in reversed(events) if status_after(event) is not None), None)
    answer = "nothing is known of it" if last is None else f"it is {status_after(last)}: {words.of_run(last)}"
    return Why(subject=run_id, answer=answer, steps=steps)


def of_moment(job_id: str, job: JobHistory, events: Sequence[Numbered], at: Instant, now: Instant) -> Why:
    """Why a job ran or did not run at a moment."""
    steps = _steps(
        [(event.at, words.of_job(event, version), "") for version, event in job if event.at <= at + SECOND]
        + [
            (event.at, words.of_run(event), str(sequence))
            for sequence, event in events
            if _concerns(event, at)
        ]
    )
    return Why(
        subject=f"{job_id} at {rfc3339(at)}", answer=_answer(job_id, job, events, at, now), steps=steps
    )


def _answer(job_id: str, job: JobHistory, events: Sequence[Numbered], at: Instant, now: Instant) -> str:
    decided = [event for _, event in events if _concerns(event, at)]
    if decided:
        return words.of_run(decided[-1])
    before = [event for _, event in job if event.at <= at]
    if not before:
        return (
            f"{job_id} did not exist yet: it was created at {rfc3339(job[0][1].at)}" if job else "no such job"
        )
    state = before[-1]
    if isinstance(state, JobPaused) or (isinstance(state, JobUpdated) and state.paused_at is not None):
        return f"{job_id} was paused by {state.actor or 'somebody'}" + (
            f": {state.note}" if state.note else ""
        )
    if isinstance(state, JobCancelled):
        return f"{job_id} was cancelled at {rfc3339(state.at)} by {state.actor or 'somebody'}"
    for span in spans(job, max(now, at)):
        if span.after < at <= span.until or span.version == job[-1][0]:
            return _not_due(job_id, span.spec.schedule, span.spec.name, at, now)
    return f"{job_id} was not due then"


def _not_due(job_id: str, schedule: Schedule, name: str, at: Instant, now: Instant) -> str:
    if schedule.schedule_type in ("IMMEDIATE", "DEPENDENT"):
        return f"{job_id} has no times of its own: it is {schedule.schedule_type}"
    fires = compile(schedule, name)
    here = fires.at_or_after(at)
    if here is not None and here.scheduled < at + _SECONDS_AROUND * SECOND:
        if here.scheduled > now:
            return "it is due then, and that has not come yet"
        return "it was due, and nobody has decided about it yet: see `waterclock partitions` for its owner"
    previous = fires.previous(at)
    parts = [f"{job_id} was not due then"]
    if previous is not None:
        parts.append(f"the fire before was at {rfc3339(previous.scheduled)}")
    if here is not None:
        parts.append(f"the next one at {rfc3339(here.scheduled)}")
    return "; ".join(parts)


def _concerns(event: object, at: Instant) -> bool:
    """Whether an event is about the fire at a moment: its own, or a range of missed ones around it."""
    if isinstance(event, RunsMissed):
        return event.scheduled <= at + SECOND and at <= event.until + SECOND
    scheduled = getattr(event, "scheduled", None)
    return isinstance(scheduled, int) and at <= scheduled < at + _SECONDS_AROUND * SECOND


def _steps(said: list[tuple[Instant, str, str]]) -> list[Step]:
    steps: list[Step] = []
    before: Instant | None = None
    for at, what, position in said:
        gap = None if before is None else (at - before) / SECOND
        steps.append(Step(at=datetime_of(at), what=what, position=position, after_seconds=gap))
        before = at
    return steps
