"""Jobs whose rows are made at once: created and no more than that, created, queued once and succeeded in one batch, or
stored before and queued once and succeeded in one batch.

They are taken out of the batch before the rest of it is folded event by event. Of a one-shot that was stored before,
Postgres is asked whether it still is as it was stored, unless that was in the batch before, which is remembered. Of the
others nobody asks: a job that is created has no row, and without one no run. Should it have one after all, because its
frame is in the log twice or because its id is used again after it had left the log, the insert is refused for its key,
the transaction with it, and the batch is folded again with a look at every row (`projection.RowsWereThere`).
"""

from collections.abc import Container, Iterable, Sequence

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.readmodel.run_stats import RunStats, StatsKey
from waterclock.core.domain.readmodel.short_life import (
    NewJob,
    OnlyRun,
    ShortLife,
    first_fire,
    is_its_end,
    is_its_run,
    is_only_run,
)
from waterclock.projector.fold.batch_fold import BatchFold, KnownRows
from waterclock.projector.read.messages import JobsMessage, RunsMessage
from waterclock.proto.events import JobCreated, JobEvent, RunEvent, RunQueued, RunSucceeded

JobEvents = list[tuple[int, Sequence[JobEvent]]]
RunEvents = list[tuple[int, Sequence[RunEvent]]]
"""By message: its sequence, and what it tells."""

_Created = tuple[JobCreated, int]
_Queued = tuple[JobCreated, int, RunQueued, int]
_Fired = tuple[RunQueued, int]
"""As far as a life has come."""


class ShortLives:
    """Of one batch, by job. `created` has those of which it tells nothing else, `ended` those that begin and end in it,
    `only_runs` the runs of those that may have been stored before and end in it. What else it tells is in `other_jobs`
    and `other_runs`, of each job in the order of the log."""

    def __init__(
        self,
        jobs: Iterable[JobsMessage],
        runs: Iterable[RunsMessage],
        known: Container[str] = (),
        careful_through: int = 0,
        waiting: Container[str] = (),
    ) -> None:
        """`known`: jobs that are there. What `JOBS` has up to `careful_through` may be there too. `waiting`: jobs that
        are there and to which nothing has happened yet."""
        self.other_jobs: JobEvents = []
        self.other_runs: RunEvents = []
        self.created: dict[str, NewJob] = {}
        self.ended: dict[str, ShortLife] = {}
        self.only_runs: dict[str, OnlyRun] = {}
        self._created: dict[str, _Created] = {}
        self._queued: dict[str, _Queued] = {}
        self._fired: dict[str, _Fired] = {}
        self._seen: set[str] = set()
        """Jobs of which the batch has told something so far."""
        self._take_jobs(jobs, known, careful_through, waiting)
        self._take_runs(runs, known, careful_through)
        for unended in [*self._queued, *self._fired]:
            self.give_back(unended)
        self._work_out_first_fires()

    def _take_jobs(
        self,
        messages: Iterable[JobsMessage],
        known: Container[str],
        careful_through: int,
        waiting: Container[str],
    ) -> None:
        created, seen = self._created, self._seen
        for message in messages:
            sequence = message.sequence
            others: list[JobEvent] = []
            for event in message.events:
                job_id = event.job_id
                if (
                    type(event) is JobCreated
                    and sequence > careful_through
                    and job_id not in seen
                    and job_id not in known
                    and job_id not in waiting
                ):
                    created[job_id] = (event, sequence)
                else:
                    self.give_back(job_id)
                    others.append(event)
                seen.add(job_id)
            if others:
                self.other_jobs.append((sequence, others))

    def _take_runs(
        self, messages: Iterable[RunsMessage], known: Container[str], careful_through: int
    ) -> None:
        created, queued, fired, seen = self._created, self._queued, self._fired, self._seen
        for message in messages:
            sequence = message.sequence
            others: list[RunEvent] = []
            for event in message.events:
                job_id = event.run_id.partition("@")[0]
                if (waiting := queued.get(job_id)) is not None and is_its_end(event, waiting[2]):
                    del queued[job_id]
                    self.ended[job_id] = (*waiting, event, sequence)
                elif (stored := fired.get(job_id)) is not None and is_its_end(event, stored[0]):
                    del fired[job_id]
                    self.only_runs[job_id] = (*stored, event, sequence)
                elif (begun := created.get(job_id)) is not None and is_its_run(event, begun[0]):
                    del created[job_id]
                    queued[job_id] = (*begun, event, sequence)
                elif (
                    is_only_run(event, job_id)
                    and event.version > careful_through
                    and job_id not in seen
                    and job_id not in known
                ):
                    fired[job_id] = (event, sequence)
                else:
                    self.give_back(job_id)
                    others.append(event)
                seen.add(job_id)
            if others:
                self.other_runs.append((sequence, others))

    def _work_out_first_fires(self) -> None:
        for job_id, (event, version) in self._created.items():
            try:
                self.created[job_id] = (event, version, first_fire(event))
            except Exception:  # it is reported when the event is folded by itself
                self.other_jobs.append((version, (event,)))

    def give_back(self, job_id: str) -> None:
        """Something else happens to a job, or nothing more: its events are as any others."""
        life = (
            self._created.pop(job_id, None) or self._queued.pop(job_id, None) or self.ended.pop(job_id, None)
        )
        if life is not None:
            jobs, runs = events_of(life)
            self.other_jobs += jobs
            self.other_runs += runs
        elif (run := self._fired.pop(job_id, None) or self.only_runs.pop(job_id, None)) is not None:
            self.other_runs += run_events_of(run)


def events_of(life: _Created | NewJob | _Queued | ShortLife) -> tuple[JobEvents, RunEvents]:
    return [(life[1], (life[0],))], run_events_of(life[2:]) if len(life) > 3 else []


def run_events_of(run: _Fired | OnlyRun) -> RunEvents:
    events: RunEvents = [(run[1], (run[0],))]
    if len(run) > 2:
        events.append((run[3], (run[2],)))
    return events


def rows_known_of(lives: Iterable[NewJob | ShortLife]) -> KnownRows:
    """What has been written of them, to go on from."""
    known = KnownRows()
    fold = BatchFold(known)
    for life in lives:
        jobs, runs = events_of(life)
        for version, created in jobs:
            fold.fold_jobs(created, version)
        for sequence, events in runs:
            fold.fold_runs(events, sequence)
    fold.finish()
    return known


def count_successes(runs: Iterable[tuple[str, RunQueued, RunSucceeded]], stats: RunStats) -> None:
    """How runs went, each with its namespace."""
    times: dict[StatsKey, tuple[list[int], list[int]]] = {}
    for namespace, queued, ended in runs:
        scheduled, started = queued.scheduled, ended.started
        key = (namespace, scheduled - scheduled % MINUTE, queued.queue, ended.executor_id)
        found = times.get(key)
        if found is None:
            found = times[key] = ([], [])
        found[0].append(started - queued.due)
        found[1].append(ended.at - started)
    for key, (lags, durations) in times.items():
        stats.add_successes(key, lags, durations)
