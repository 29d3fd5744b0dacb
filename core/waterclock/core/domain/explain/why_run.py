"""Why a run is as it is."""

from collections.abc import Sequence

from waterclock.core.domain.explain import wording
from waterclock.core.domain.explain.delays import delays
from waterclock.core.domain.explain.explanation import (
    DecidedBy,
    Delay,
    Destination,
    Explanation,
    JobHistory,
    Reason,
    Recorded,
    Step,
    instance_of,
)
from waterclock.core.domain.explain.wording import policy
from waterclock.core.domain.run.states import is_stale, transition
from waterclock.proto.events import (
    Instant,
    Outcome,
    RunEvent,
    RunOpened,
    RunQueued,
    RunRequested,
    RunSkipped,
    RunsMissed,
    RunStarted,
    RunWaiting,
)
from waterclock.proto.verdicts import TERMINAL, RunStatus

_DECISIONS = (RunQueued, RunWaiting, RunSkipped, RunsMissed, RunOpened)
_REASONS: dict[RunStatus, Reason] = {"SKIPPED": "skipped", "MISSED": "missed", "CANCELLED": "cancelled"}
_NOTABLE = 0.1
"""A stretch of the time is worth a word from this share on."""


def explain_run(run_id: str, records: Sequence[Recorded], job: JobHistory, now: Instant) -> Explanation:
    """Its definition, everything that happened to it, and where the time went. `records`: the run's own, in order."""
    events = [record.event for record in records]
    status, telling = _state(events)
    decision = next((record for record in records if isinstance(record.event, _DECISIONS)), None)
    definition = _definition(events, job)
    spent = delays(events, now)
    return Explanation(
        subject=run_id,
        run_id=run_id,
        reason=_reason(status),
        answer=_answer(status, telling, decision, spent, events),
        steps=(*_defined(definition, job), *map(step, records)),
        delays=spent,
        definition=definition,
        decided_by=None if decision is None else instance_of(decision.writer),
        executors=_executors(events),
        waits_in=Destination(queue=telling.queue, handler=telling.handler, tier=telling.tier)
        if isinstance(telling, RunQueued)
        else None,
        waits_for_dependencies=isinstance(telling, RunWaiting) and telling.waits_for == "dependency",
    )


def step(record: Recorded) -> Step:
    return Step(
        at=record.event.at, what=wording.run_event(record.event), sequence=record.sequence, by=record.writer
    )


def absence(record: Recorded) -> str:
    """Since when nobody had decided anything when fires were found to be missed."""
    if not isinstance(record.event, RunsMissed) or record.decided_before is None:
        return ""
    reason = record.event.reason
    if reason.startswith("start deadline") and not reason.endswith("passed"):
        return ""  # it says for what it waited until then
    until = wording.moment(record.event.at)
    text = f"; nobody had decided for this partition from {wording.moment(record.decided_before)} to {until}"
    before, after = record.owner_before, instance_of(record.writer)
    if before is not None and instance_of(before) != after:
        text += f", when {after} took over from {instance_of(before)}"
    return text


def _state(events: Sequence[RunEvent]) -> tuple[RunStatus | None, RunEvent | None]:
    """The run's state, and the event that made it so."""
    status: RunStatus | None = None
    telling: RunEvent | None = None
    attempt, executor_id = 0, None
    for event in events:
        if is_stale(attempt, executor_id, event):
            continue
        following = transition(status, event)
        if following is None:
            continue
        status, telling = following, event
        if isinstance(event, RunQueued | RunOpened):
            attempt, executor_id = event.attempt, None
        elif isinstance(event, RunStarted):
            executor_id = event.executor_id
    return status, telling


def _reason(status: RunStatus | None) -> Reason:
    if status is None:
        return "unknown"
    return _REASONS.get(status, "ran" if status in TERMINAL else "under_way")


def _answer(
    status: RunStatus | None,
    telling: RunEvent | None,
    decision: Recorded | None,
    spent: tuple[Delay, ...],
    events: Sequence[RunEvent],
) -> str:
    if status is None or telling is None:
        return "nothing is known of it"
    text = f"it is {status}: {wording.run_event(telling)}"
    if decision is not None:
        text += absence(decision)
    if text_behind := _behind(events):
        return text + text_behind
    late = [delay for delay in spent if delay.kind not in ("execution", "ended")]
    worst = max(late, key=lambda delay: delay.share, default=None)
    if worst is not None and worst.share >= _NOTABLE:
        text += f"; {worst.share:.0%} of its time ({wording.span(worst.end - worst.start)}): {worst.what}"
    return text


def _behind(events: Sequence[RunEvent]) -> str:
    """That it was late because the system was, where an attempt was."""
    late = [event for event in events if isinstance(event, RunQueued) and event.behind_ms is not None]
    if not late:
        return ""
    worst = max(late, key=lambda event: event.at - event.due)
    return f"; it waited {wording.span(max(0, worst.at - worst.due))}: {wording.behind(worst)}"


def _definition(events: Sequence[RunEvent], job: JobHistory) -> DecidedBy | None:
    version = next(
        (event.version for event in events if isinstance(event, (*_DECISIONS, RunRequested))),
        None,
    )
    for known, event in job:
        if known == version:
            return DecidedBy(
                version=known, at=event.at, actor=event.actor, note=event.note, policy=policy(event.spec)
            )
    return None


def _defined(definition: DecidedBy | None, job: JobHistory) -> list[Step]:
    if definition is None:
        return []
    event = next(event for version, event in job if version == definition.version)
    what = f"{wording.job_event(event, definition.version)}: {definition.policy}"
    return [Step(at=definition.at, what=what, by=event.actor)]


def _executors(events: Sequence[RunEvent]) -> tuple[str, ...]:
    found = [event.executor_id for event in events if isinstance(event, RunStarted | Outcome)]
    return tuple(dict.fromkeys(found))
