"""Log events as the changes that watchers see, one by one or many as few."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from waterclock.api.errors import Invalid
from waterclock.core.domain import ids
from waterclock.core.domain.ids import namespace_of
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.job import durations
from waterclock.core.domain.job.aggregate import evolve
from waterclock.core.domain.run.states import transition
from waterclock.core.runtime.quarantine import Record, read_frame, read_job_frame
from waterclock.proto.answers import Change, Run
from waterclock.proto.events import JobEvent, RunEvent, RunReported, ScheduleEnded
from waterclock.proto.verdicts import TERMINAL, RunStatus

_BEFORE: tuple[RunStatus | None, ...] = ("RUNNING", "QUEUED", None, "RETRYING", "WAITING", "FAILED")
"""States to try an event on: a watcher joins in the middle and does not know the run's."""
_SHORTEST, _LONGEST = 0.02, 60.0
_MOST_SHOWN = 1000
"""Runs and jobs in one message. Of further ones it only says how many changes there were."""


_ENDINGS: dict[RunStatus, str] = {
    "SUCCESS": "succeeded",
    "FAILED": "failed",
    "TIMED_OUT": "timed_out",
    "CANCELLED": "cancelled",
    "SKIPPED": "skipped",
    "MISSED": "missed",
}


class Selection(Struct, frozen=True, kw_only=True):
    """Which changes somebody wants."""

    namespace: str
    job: str | None = None
    run: str | None = None
    workflow_run: str | None = None
    ids: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    once: bool = False
    """The job fires only once: the end of its run is the end of what can be watched."""

    def wants(self, change: Change) -> bool:
        if namespace_of(change.job_id) != self.namespace:
            return False
        if self.job is not None and change.job_id != self.job:
            return False
        if self.run is not None and change.run_id != self.run:
            return False
        if self.workflow_run is not None and not _is_part(change.run_id, self.workflow_run):
            return False
        if self.ids and change.job_id not in self.ids and change.run_id not in self.ids:
            return False
        return not self.types or change.type in self.types

    def is_final(self, change: Change) -> bool:
        if self.run is None and not self.once:
            return False
        return change.run_id is not None and change.status in TERMINAL


def _is_part(run_id: str | None, whole: str) -> bool:
    """Whether a run is another, or within it."""
    return run_id is not None and (run_id == whole or run_id.startswith(f"{whole}~"))


def changes_of_job_frame(record: Record) -> Iterator[Change]:
    for event in read_job_frame(record).events:
        yield _job_change(event)


def changes_of_run_frame(record: Record) -> Iterator[Change]:
    for event in read_frame(record).events:
        yield change_of_run(event)


def change_of_ended(run: Run, position: str) -> Change:
    """The end of a run that was over before anybody watched."""
    return Change(
        position=position,
        type=_ENDINGS[run.status],
        at=run.end_time or run.modified_time or datetime.now(UTC),
        job_id=run.job_id,
        run_id=run.run_id,
        status=run.status,
        attempt_number=run.attempt_number,
        reason=run.reason,
        executor_id=run.executor_id,
        exit_code=run.exit_code,
        error_message=run.error_message,
        final=True,
    )


def status_after(event: RunEvent) -> RunStatus | None:
    for before in _BEFORE:
        after = transition(before, event)
        if after is not None:
            return after
    return None


def _job_change(event: JobEvent) -> Change:
    return Change(
        position="",
        type=str(event.__struct_config__.tag),
        at=datetime_of(event.at),
        job_id=event.job_id,
        status=evolve(None, event).status,
        reason=event.note or None,
        actor=event.actor or None,
    )


def change_of_run(event: RunEvent) -> Change:
    ended = isinstance(event, ScheduleEnded)
    report = event if isinstance(event, RunReported) else None
    return Change(
        position="",
        type=str(event.__struct_config__.tag),
        at=datetime_of(event.at),
        job_id=ids.job_of(event.run_id),
        run_id=None if ended else event.run_id,
        status="COMPLETED" if ended else status_after(event),
        attempt_number=_field(event, "attempt"),
        reason=_field(event, "reason") or (report and report.note) or None,
        executor_id=_field(event, "executor_id"),
        exit_code=_field(event, "exit_code"),
        error_message=_field(event, "error_message") or None,
        actor=_field(event, "actor") or None,
        progress=None if report is None else report.done,
    )


def _field(event: RunEvent, name: str) -> Any:
    return getattr(event, name, None)


def read_interval(text: str) -> float:
    """Seconds."""
    try:
        seconds = durations.parse(text) / 1e6
    except durations.InvalidDuration as error:
        raise Invalid.field("conflate", str(error)) from None
    if not _SHORTEST <= seconds <= _LONGEST:
        raise Invalid.field("conflate", f"must be from {_SHORTEST * 1000:.0f}ms to {_LONGEST:.0f}s")
    return seconds


class Conflation:
    """What has happened since the last message. It holds no more than one message does."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.final = False
        self._newest: dict[str, Change] = {}
        self._counts = Counter[str]()
        self._left_out = 0

    def __bool__(self) -> bool:
        return bool(self._newest)

    def add(self, change: Change, *, final: bool = False) -> None:
        self.final = self.final or final
        if change.run_id is not None and change.status is not None:
            self._counts[change.status] += 1
        about = change.run_id or change.job_id
        if about in self._newest:
            # In the order of their newest changes. One without a status, such as a request, leaves it as it was.
            before = self._newest.pop(about)
            if change.status is None:
                change = structs.replace(change, status=before.status)
        elif len(self._newest) >= _MOST_SHOWN:
            self._left_out += 1
            return
        self._newest[about] = change

    def take(self, position: str) -> Change:
        """All of it as one message, and begin anew."""
        message = Change(
            position=position,
            type="conflated",
            at=datetime.now(UTC),
            changes=list(self._newest.values()),
            counts=dict(self._counts),
            left_out=self._left_out,
            final=self.final,
        )
        self._begin()
        return message
