"""From a batch of the log to changes of rows, without touching the database.

`Memory` is what is known of the rows: a shadow of the last commit, filled from the database before a batch is folded.
Several events of one run or job become one change of its row, so a run that was queued and ended within a batch is a
plain insert. The result does not depend on where the log is cut into batches.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from waterclock.core.domain.readmodel import job_fold, run_fold
from waterclock.core.domain.readmodel.rows import AttemptRow, Definition, JobHead, RunRow
from waterclock.proto.events import (
    JobEvent,
    RunClosed,
    RunEvent,
    RunOpened,
    RunQueued,
    RunSkipped,
    RunsMissed,
    RunWaiting,
    ScheduleEnded,
)
from waterclock.proto.names import job_of
from waterclock.proto.verdicts import TERMINAL

_BY_SCHEDULE = ("schedule", "catch_up")
_DEAD = ("FAILED", "TIMED_OUT")
_FIRES = frozenset({RunQueued, RunWaiting, RunOpened, RunSkipped, RunsMissed})
_NOTHING: Mapping[str, int] = {}


class Memory(Struct, kw_only=True):
    runs: dict[str, RunRow] = field(default_factory=dict)
    jobs: dict[str, JobHead] = field(default_factory=dict)


class Trouble(Struct, frozen=True):
    """An event that could not be folded. It is left out: one bad event must not end the read models."""

    sequence: int
    about: str
    error: Exception


class Changes(Struct, kw_only=True):
    new_runs: dict[str, RunRow] = field(default_factory=dict)
    changed_runs: dict[str, RunRow] = field(default_factory=dict)
    attempts: list[AttemptRow] = field(default_factory=list)
    dead: dict[str, RunRow] = field(default_factory=dict)
    revived: set[str] = field(default_factory=set)
    new_jobs: dict[str, Definition] = field(default_factory=dict)
    changed_jobs: dict[str, Definition] = field(default_factory=dict)
    states: dict[str, JobHead] = field(default_factory=dict)
    """Of jobs that are not new."""
    troubles: list["Trouble"] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class Fold:
    def __init__(self, memory: Memory, applied: Mapping[str, int] = _NOTHING) -> None:
        """`applied`: runs whose rows hold more of the log than has been folded, and up to which sequence."""
        self._memory = memory
        self._applied = applied
        self._touched: dict[str, JobHead] = {}
        self._changes = Changes()

    def job_events(self, events: Iterable[JobEvent], sequence: int) -> None:
        """The events of one message of `JOBS`; its sequence is their version."""
        jobs, changes = self._memory.jobs, self._changes
        for event in events:
            head = jobs.get(event.job_id)
            if head is not None and head.version >= sequence:
                continue
            is_new = head is None or event.job_id in changes.new_jobs
            try:
                head = job_fold.define(head, event, sequence)
            except Exception as error:
                changes.troubles.append(Trouble(sequence, event.job_id, error))
                continue
            jobs[event.job_id] = self._touched[event.job_id] = head
            (changes.new_jobs if is_new else changes.changed_jobs)[head.job_id] = Definition(head, event)

    def run_events(self, events: Iterable[RunEvent], sequence: int) -> None:
        """The events of one message of `RUNS`."""
        for event in events:
            try:
                if type(event) is ScheduleEnded:
                    self._schedule_ended(event, sequence)
                else:
                    self._run_event(event, sequence)
            except Exception as error:
                self._changes.troubles.append(Trouble(sequence, event.run_id, error))

    def finish(self) -> Changes:
        """Settle what depends on more than one event, once for the whole batch."""
        changes = self._changes
        for job_id, head in self._touched.items():
            try:
                job_fold.settle(head)
            except Exception as error:
                changes.troubles.append(Trouble(head.version, job_id, error))
            if job_id not in changes.new_jobs:
                changes.states[job_id] = head
        return changes

    def _run_event(self, event: RunEvent, sequence: int) -> None:
        run_id = event.run_id
        runs, changes = self._memory.runs, self._changes
        row = runs.get(run_id)
        if row is None:
            head = self._memory.jobs.get(job_of(run_id)) or self._memory.jobs.get(run_id.partition("~")[0])
            begun = run_fold.begin(event, sequence, "default" if head is None else head.namespace)
            if begun is None:
                return
            row, left = begun
            runs[run_id] = changes.new_runs[run_id] = row
        else:
            if sequence <= self._applied.get(run_id, 0):
                return
            was_dead = row.status in _DEAD
            changed, left = run_fold.advance(row, event, sequence)
            if not changed:
                return
            if run_id not in changes.new_runs:
                changes.changed_runs[run_id] = row
            if was_dead:
                changes.dead.pop(run_id, None)
                changes.revived.add(run_id)
        if left is not None:
            changes.attempts.append(left)
        if row.status in TERMINAL:
            if row.status in _DEAD and type(event) is not RunClosed:
                changes.dead[run_id] = row
                changes.revived.discard(run_id)
            self._run_ended(row, sequence)
        if type(event) in _FIRES:
            self._fired(row, event, sequence)

    def _run_ended(self, row: RunRow, sequence: int) -> None:
        head = self._memory.jobs.get(row.job_id)
        if (
            head is not None
            and row.trigger in _BY_SCHEDULE
            and job_fold.run_ended(head, row.scheduled_time, sequence)
        ):
            self._touched[head.job_id] = head

    def _fired(self, row: RunRow, event: RunEvent, sequence: int) -> None:
        match event:
            case RunQueued() | RunWaiting() | RunOpened() if event.trigger in _BY_SCHEDULE:
                scheduled = event.scheduled
            case RunSkipped() if event.trigger in _BY_SCHEDULE:
                scheduled = event.scheduled
            case RunsMissed() if event.trigger in _BY_SCHEDULE:
                scheduled = event.until
            case _:
                return
        head = self._memory.jobs.get(row.job_id)
        if head is not None and job_fold.fired(head, scheduled, sequence):
            self._touched[head.job_id] = head

    def _schedule_ended(self, event: ScheduleEnded, sequence: int) -> None:
        head = self._memory.jobs.get(event.run_id)
        if head is not None and job_fold.schedule_ended(head, event.version, sequence):
            self._touched[head.job_id] = head
