"""Why a job ran, or did not run, at a moment."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from waterclock.core.domain.explain import wording
from waterclock.core.domain.explain.definition_spans import Span, spans
from waterclock.core.domain.explain.explanation import (
    Destination,
    Explanation,
    JobHistory,
    Reason,
    Recorded,
    Step,
)
from waterclock.core.domain.explain.not_due import Around, around, not_due
from waterclock.core.domain.explain.why_run import absence, explain_run, step
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job.aggregate import is_due_at_once
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobEvent,
    JobPaused,
    JobUpdated,
    RunQueued,
    RunsMissed,
    ScheduleEnded,
    SkipRequested,
)
from waterclock.proto.spec import Handler, JobSpec, Workflow

_NOTABLE_SECONDS = 1.0
"""From here on it is worth a word that the system is behind."""
_SLACK_SECONDS = 10.0
"""What is older than the system is behind, and this much more, has another reason: its events have left the log."""


def explain_moment(
    job_id: str,
    job: JobHistory,
    records: Sequence[Recorded],
    at: Instant,
    now: Instant,
    decided: Instant | None = None,
    behind_seconds: float = 0.0,
    waiting: int = 0,
    settled_jobs: int | None = None,
) -> Explanation:
    """`records`: of the job's runs around the moment. `decided`: how far the partition's owner says it has come.
    `behind_seconds`: how far behind the system says it is. `waiting`: how much is due in the partition and waits for
    room. `settled_jobs`: up to which definition nothing waits that was due when it was read.

    A moment in whole seconds means that second.
    """
    found = _explained(
        job_id, job, records, at, now, decided, _Backlog(behind_seconds, waiting, decided, settled_jobs)
    )
    subject = f"{job_id} at {wording.moment(at)}"
    if found.run_id is not None:
        return msgspec.structs.replace(found, subject=subject)
    steps = [_defined(version, event) for version, event in job if event.at <= at + SECOND]
    return msgspec.structs.replace(found, subject=subject, steps=(*steps, *found.steps))


class _Backlog(Struct, frozen=True):
    """What the partition has not come to."""

    behind_seconds: float
    waiting: int
    decided: Instant | None
    settled_jobs: int | None

    def reason(self, version: int, due: Instant, now: Instant) -> str | None:
        """Why what a definition had due then is not decided; None: it is not for a backlog."""
        if is_pending(due, now, self.behind_seconds):
            return f"the system is {wording.span(int(self.behind_seconds * SECOND))} behind"
        is_later = self.decided is not None and self.decided < due
        is_unsettled = self.settled_jobs is not None and self.settled_jobs < version
        if due > now or not (is_later or is_unsettled):
            return None
        if self.waiting:
            return f"it waits for a slot; {self.waiting:,} are due in its partition"
        return "its definition has just been written" if is_unsettled else None


def _explained(
    job_id: str,
    job: JobHistory,
    records: Sequence[Recorded],
    at: Instant,
    now: Instant,
    decided: Instant | None,
    backlog: _Backlog,
) -> Explanation:
    if (run_id := _run_at(records, at)) is not None:
        own = [record for record in records if record.event.run_id == run_id]
        return explain_run(run_id, own, job, now)
    if (missed := _missed_at(records, at)) is not None:
        return _answer("missed", wording.run_event(missed.event) + absence(missed), steps=(step(missed),))
    before = [(version, event) for version, event in job if event.at < at + SECOND]
    if not before:
        if not job:
            return _answer("unknown", f"nothing is known of {job_id}")
        return _answer(
            "not_created", f"it did not exist yet: it was created at {wording.moment(job[0][1].at)}"
        )
    version, state = before[-1]
    times = around(state.spec.schedule, state.spec.name, at)
    if isinstance(state, JobCancelled):
        text = f"{_who(state)} cancelled the job at {wording.moment(state.at)}{_noted(state)}"
        return _answer("job_cancelled", text)
    if (paused := _pause(job, at)) is not None:
        due = "it would have been due, but " if times.here is not None else "it was not due then, and "
        text = f"{due}{_who(paused)} had paused the job at {wording.moment(paused.at)}{_noted(paused)}"
        return _answer("paused", text, times)
    for record in records:
        if isinstance(record.event, ScheduleEnded) and record.event.at < at:
            return _answer("ended", wording.run_event(record.event), times, (step(record),))
    span = next(
        (span for span in spans(job, max(now, at)) if span.after < at + SECOND <= span.until + SECOND), None
    )
    if span is not None and (here := around(span.spec.schedule, span.spec.name, at)).here is not None:
        return _due(job_id, span, here, now, decided, records, backlog)
    if is_due_at_once(state) and (waits := backlog.reason(version, state.at, now)) is not None:
        return _pending(state.at, times, waits, state.spec)
    reason, text = not_due(state, at, times)
    is_dependent = reason == "no_schedule" and state.due_now is None and bool(state.spec.dependencies)
    return msgspec.structs.replace(_answer(reason, text, times), waits_for_dependencies=is_dependent)


def _due(
    job_id: str,
    span: Span,
    times: Around,
    now: Instant,
    decided: Instant | None,
    records: Sequence[Recorded],
    backlog: _Backlog,
) -> Explanation:
    """A fire that no event speaks of."""
    assert times.here is not None
    wishes = [
        record
        for record in records
        if isinstance(record.event, SkipRequested) and record.event.scheduled == times.here
    ]
    if times.here > now:
        text = "it is due then, and that has not come yet"
        if wishes:
            text += f"; {wording.run_event(wishes[-1].event)}"
        return _answer("future", text, times, tuple(map(step, wishes)))
    if span.spec.schedule.max_fires is not None and decided is not None and decided >= times.here:
        return _answer("ended", f"its max_fires of {span.spec.schedule.max_fires} were reached", times)
    if (waits := backlog.reason(span.version, times.here, now)) is not None:
        return _pending(times.here, times, waits, span.spec)
    known = "" if decided is None else f": its partition is decided up to {wording.moment(decided)}"
    return _answer("undecided", f"it was due, and nobody has decided it yet{known}", times)


def is_pending(due: Instant, now: Instant, behind_seconds: float) -> bool:
    """Whether it is enough of a reason that the system is behind."""
    slack = int((behind_seconds + _SLACK_SECONDS) * SECOND)
    return behind_seconds >= _NOTABLE_SECONDS and now - slack <= due <= now


def _pending(due: Instant, times: Around, why: str, spec: JobSpec) -> Explanation:
    text = f"due {wording.moment(due)}, not decided yet: {why}"
    return msgspec.structs.replace(_answer("undecided", text, times), waits_in=_destination(spec))


def _destination(spec: JobSpec) -> Destination | None:
    """None: it has no work of its own, but parts that have."""
    if isinstance(spec.task, Workflow) or spec.fan_out is not None:
        return None
    handler = spec.task.handler if isinstance(spec.task, Handler) else None
    return Destination(queue=spec.queue, handler=handler, tier=spec.tier)


def _run_at(records: Sequence[Recorded], at: Instant) -> str | None:
    """The run scheduled at the moment; else one that was asked for then."""
    fits = [
        record.event
        for record in records
        if at <= (getattr(record.event, "scheduled", None) or -1) < at + SECOND
        and not isinstance(record.event, SkipRequested)
        and not (isinstance(record.event, RunsMissed) and record.event.count > 1)
    ]
    fits.sort(key=lambda event: isinstance(event, RunQueued) and event.trigger in ("now", "backfill"))
    return fits[0].run_id if fits else None


def _missed_at(records: Sequence[Recorded], at: Instant) -> Recorded | None:
    """A range of missed fires that has the moment in it."""
    for record in records:
        event = record.event
        if isinstance(event, RunsMissed) and event.scheduled < at + SECOND and at <= event.until:
            return record
    return None


def _pause(job: JobHistory, at: Instant) -> JobEvent | None:
    """The pause that held at the moment: an edit neither pauses nor resumes."""
    pause: JobEvent | None = None
    for _, event in job:
        if event.at >= at + SECOND:
            break
        if isinstance(event, JobPaused):
            pause = event
        elif not (isinstance(event, JobUpdated) and event.paused_at is not None):
            pause = None
    return pause


def _answer(
    reason: Reason, text: str, times: Around | None = None, steps: tuple[Step, ...] = ()
) -> Explanation:
    return Explanation(
        subject="",
        reason=reason,
        answer=text,
        steps=steps,
        previous=None if times is None else times.previous,
        following=None if times is None else times.following,
    )


def _defined(version: int, event: JobEvent) -> Step:
    return Step(at=event.at, what=wording.job_event(event, version), by=event.actor)


def _who(event: JobEvent) -> str:
    return event.actor or "somebody"


def _noted(event: JobEvent) -> str:
    return f": {event.note}" if event.note else ""
