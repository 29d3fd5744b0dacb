"""From the events of a batch to changes of rows, without touching the database.

`KnownRows` is what is known of the tables: a copy of what was last written, filled from the database before a batch is
folded. Several events of one run or job become one change of its row, so a run that was queued and ended within a batch
is a plain insert. The result does not depend on where the log is cut into batches.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never, cast, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from waterclock.core.domain.ids import job_of
from waterclock.core.domain.readmodel import job_fold
from waterclock.core.domain.readmodel.rows import AttemptRow, DefinitionRow, JobRow, RunRow
from waterclock.core.domain.readmodel.run_fold import new_run_row, update_run_row
from waterclock.core.domain.readmodel.run_stats import RunStats
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
    SkipRequested,
)
from waterclock.proto.verdicts import TERMINAL

_BY_SCHEDULE = ("schedule", "catch_up")
_DEAD = ("FAILED", "TIMED_OUT")
_Fire = RunQueued | RunWaiting | RunOpened | RunSkipped | RunsMissed
_FIRES = frozenset(get_args(_Fire))
"""Looked up by type: `isinstance` of a struct costs six times as much when the answer is no."""
_NOTHING: Mapping[str, int] = {}


class KnownRows(Struct, kw_only=True):
    runs: dict[str, RunRow] = field(default_factory=dict)
    jobs: dict[str, JobRow] = field(default_factory=dict)


class FoldFailure(Struct, frozen=True):
    """An event that could not be folded. It is left out: one bad event must not end the read models."""

    sequence: int
    subject_id: str
    """Of the run or job."""
    error: Exception


class Changes(Struct, kw_only=True):
    new_runs: dict[str, RunRow] = field(default_factory=dict)
    changed_runs: dict[str, RunRow] = field(default_factory=dict)
    attempts: list[AttemptRow] = field(default_factory=list)
    dead: dict[str, RunRow] = field(default_factory=dict)
    """Runs that have become dead letters."""
    revived: set[str] = field(default_factory=set)
    """Runs that are no longer dead letters."""
    new_jobs: dict[str, DefinitionRow] = field(default_factory=dict)
    changed_jobs: dict[str, DefinitionRow] = field(default_factory=dict)
    job_states: dict[str, JobRow] = field(default_factory=dict)
    """Of jobs that are not new."""
    stats: RunStats = field(default_factory=RunStats)
    failures: list[FoldFailure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__ if name != "stats")


class BatchFold:
    def __init__(self, known: KnownRows, folded_through: Mapping[str, int] = _NOTHING) -> None:
        """`folded_through`: runs whose rows hold more of the log than has been folded, and up to which sequence."""
        self._known = known
        self._folded_through = folded_through
        self._touched_jobs: dict[str, JobRow] = {}
        self._changes = Changes()

    def fold_jobs(self, events: Iterable[JobEvent], sequence: int) -> None:
        """The events of one message of `JOBS`; its sequence is their version."""
        jobs, changes = self._known.jobs, self._changes
        for event in events:
            job = jobs.get(event.job_id)
            if job is not None and job.version >= sequence:
                continue
            is_new = job is None or event.job_id in changes.new_jobs
            try:
                job = job_fold.apply_definition(job, event, sequence)
            except Exception as error:
                changes.failures.append(FoldFailure(sequence, event.job_id, error))
                continue
            jobs[event.job_id] = self._touched_jobs[event.job_id] = job
            (changes.new_jobs if is_new else changes.changed_jobs)[job.job_id] = DefinitionRow(job, event)

    def fold_runs(self, events: Iterable[RunEvent], sequence: int) -> None:
        """The events of one message of `RUNS`."""
        for event in events:
            try:
                if type(event) is ScheduleEnded:
                    self._record_schedule_end(event, sequence)
                elif type(event) is SkipRequested:
                    self._record_skip(event)
                else:
                    self._fold_run_event(event, sequence)
            except Exception as error:
                self._changes.failures.append(FoldFailure(sequence, event.run_id, error))

    def finish(self) -> Changes:
        """Work out what depends on more than one event, once for the whole batch."""
        changes = self._changes
        for job_id, job in self._touched_jobs.items():
            try:
                job_fold.derive_status(job)
            except Exception as error:
                changes.failures.append(FoldFailure(job.version, job_id, error))
            if job_id not in changes.new_jobs:
                changes.job_states[job_id] = job
        return changes

    def _fold_run_event(self, event: RunEvent, sequence: int) -> None:
        run_id = event.run_id
        runs, changes = self._known.runs, self._changes
        row = runs.get(run_id)
        if row is None:
            job = self._known.jobs.get(job_of(run_id)) or self._known.jobs.get(run_id.partition("~")[0])
            made = new_run_row(event, sequence, "default" if job is None else job.namespace)
            if made is None:
                return
            row, ended_attempt = made
            runs[run_id] = changes.new_runs[run_id] = row
        else:
            if sequence <= self._folded_through.get(run_id, 0):
                return
            was_dead = row.status in _DEAD
            before = replace(row) if row.status in TERMINAL else None
            changed, ended_attempt = update_run_row(row, event, sequence)
            if not changed:
                return
            if before is not None:
                changes.stats.add(before, -1)
            if run_id not in changes.new_runs:
                changes.changed_runs[run_id] = row
            if was_dead:
                changes.dead.pop(run_id, None)
                changes.revived.add(run_id)
        if ended_attempt is not None:
            changes.attempts.append(ended_attempt)
        if row.status in TERMINAL:
            changes.stats.add(row)
            if row.status in _DEAD and type(event) is not RunClosed:
                changes.dead[run_id] = row
                changes.revived.discard(run_id)
            self._record_run_end(row, sequence)
        if type(event) in _FIRES:
            self._record_fire(row, cast(_Fire, event), sequence)

    def _record_run_end(self, row: RunRow, sequence: int) -> None:
        job = self._known.jobs.get(row.job_id)
        if (
            job is not None
            and row.trigger in _BY_SCHEDULE
            and job_fold.record_run_end(job, row.scheduled_time, sequence)
        ):
            self._touched_jobs[job.job_id] = job

    def _record_fire(self, row: RunRow, event: _Fire, sequence: int) -> None:
        if event.trigger not in _BY_SCHEDULE:
            return
        match event:
            case RunQueued() | RunWaiting() | RunOpened() | RunSkipped():
                scheduled = event.scheduled
            case RunsMissed():
                scheduled = event.until
            case _:
                assert_never(event)
        job = self._known.jobs.get(row.job_id)
        if job is not None and job_fold.record_fire(job, scheduled, sequence):
            self._touched_jobs[job.job_id] = job

    def _record_skip(self, event: SkipRequested) -> None:
        job = self._known.jobs.get(job_of(event.run_id))
        if job is not None and job_fold.record_skip(job, event.scheduled):
            self._touched_jobs[job.job_id] = job

    def _record_schedule_end(self, event: ScheduleEnded, sequence: int) -> None:
        job = self._known.jobs.get(event.run_id)
        if job is not None and job_fold.record_schedule_end(job, event.version, sequence):
            self._touched_jobs[job.job_id] = job
