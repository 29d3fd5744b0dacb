"""Jobs of which a batch has all there is: created and no more than that, or created, queued once, succeeded. Their
rows are made at once.

They are taken out of the batch before the rest of it is folded event by event, and nobody asks Postgres for them: a job
that is created has no row, and without one no run. Should it have one after all, because its frame is in the log twice
or because its id is used again after it had left the log, the insert is refused for its key, the transaction with it,
and the batch is folded again with a look at every row (`projection.RowsWereThere`).
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.readmodel.run_stats import RunStats, StatsKey
from waterclock.core.domain.readmodel.short_life import (
    NewJob,
    ShortLife,
    first_fire,
    is_its_end,
    is_its_run,
)
from waterclock.projector.fold.batch_fold import BatchFold, KnownRows
from waterclock.projector.read.messages import JobsMessage, RunsMessage
from waterclock.proto.events import JobCreated, JobEvent, RunEvent, RunQueued

JobEvents = list[tuple[int, Sequence[JobEvent]]]
RunEvents = list[tuple[int, Sequence[RunEvent]]]
"""By message: its sequence, and what it tells."""

_Created = tuple[JobCreated, int]
_Queued = tuple[JobCreated, int, RunQueued, int]
"""As far as a life has come."""


class ShortLives:
    """Of one batch. `created` has the jobs of which it tells nothing else, `ended` those that are over. What else it
    tells is in `other_jobs` and `other_runs`, of each job in the order of the log."""

    def __init__(
        self,
        jobs: Iterable[JobsMessage],
        runs: Iterable[RunsMessage],
        known: Container[str] = (),
        careful_through: int = 0,
    ) -> None:
        """`known`: jobs that are there. What `JOBS` has up to `careful_through` may be there too."""
        self.other_jobs: JobEvents = []
        self.other_runs: RunEvents = []
        self.created: dict[str, NewJob] = {}
        self.ended: dict[str, ShortLife] = {}
        self._created: dict[str, _Created] = {}
        self._queued: dict[str, _Queued] = {}
        self._take_jobs(jobs, known, careful_through)
        if self._created:
            self._take_runs(runs)
        else:
            self.other_runs = [(message.sequence, message.events) for message in runs]
        for unended in [*self._queued]:
            self._give_back(unended)
        self._work_out_first_fires()

    def _take_jobs(
        self, messages: Iterable[JobsMessage], known: Container[str], careful_through: int
    ) -> None:
        created = self._created
        not_new: set[str] = set()
        for message in messages:
            sequence = message.sequence
            others: list[JobEvent] = []
            for event in message.events:
                job_id = event.job_id
                if (
                    type(event) is JobCreated
                    and sequence > careful_through
                    and job_id not in created
                    and job_id not in not_new
                    and job_id not in known
                ):
                    created[job_id] = (event, sequence)
                else:
                    self._give_back(job_id)
                    not_new.add(job_id)
                    others.append(event)
            if others:
                self.other_jobs.append((sequence, others))

    def _take_runs(self, messages: Iterable[RunsMessage]) -> None:
        created, queued, ended = self._created, self._queued, self.ended
        for message in messages:
            sequence = message.sequence
            others: list[RunEvent] = []
            for event in message.events:
                job_id = event.run_id.partition("@")[0]
                if (waiting := queued.get(job_id)) is not None and is_its_end(event, waiting[2]):
                    del queued[job_id]
                    ended[job_id] = (*waiting, event, sequence)
                elif (begun := created.get(job_id)) is not None and is_its_run(event, begun[0]):
                    del created[job_id]
                    queued[job_id] = (*begun, event, sequence)
                else:
                    self._give_back(job_id)
                    others.append(event)
            if others:
                self.other_runs.append((sequence, others))

    def _work_out_first_fires(self) -> None:
        for job_id, (event, version) in self._created.items():
            try:
                self.created[job_id] = (event, version, first_fire(event))
            except Exception:  # it is reported when the event is folded by itself
                self.other_jobs.append((version, (event,)))

    def _give_back(self, job_id: str) -> None:
        """Something else happens to a job, or nothing more: its events are as any others."""
        life = (
            self._created.pop(job_id, None) or self._queued.pop(job_id, None) or self.ended.pop(job_id, None)
        )
        if life is not None:
            jobs, runs = events_of(life)
            self.other_jobs += jobs
            self.other_runs += runs


def events_of(life: _Created | NewJob | _Queued | ShortLife) -> tuple[JobEvents, RunEvents]:
    runs: RunEvents = []
    if len(life) > 3:
        runs.append((life[3], (life[2],)))
    if len(life) > 4:
        runs.append((life[5], (life[4],)))
    return [(life[1], (life[0],))], runs


def rows_known_of(life: NewJob | ShortLife) -> KnownRows:
    """What has been written of it, to go on from."""
    known = KnownRows()
    fold = BatchFold(known)
    jobs, runs = events_of(life)
    for version, created in jobs:
        fold.fold_jobs(created, version)
    for sequence, events in runs:
        fold.fold_runs(events, sequence)
    fold.finish()
    return known


def count_successes(lives: Mapping[str, ShortLife], stats: RunStats) -> None:
    """How the runs went."""
    times: dict[StatsKey, tuple[list[int], list[int]]] = {}
    for created, _, queued, _, ended, _ in lives.values():
        scheduled, started = queued.scheduled, ended.started
        key = (created.spec.namespace, scheduled - scheduled % MINUTE, queued.queue, ended.executor_id)
        found = times.get(key)
        if found is None:
            found = times[key] = ([], [])
        found[0].append(started - queued.due)
        found[1].append(ended.at - started)
    for key, (lags, durations) in times.items():
        stats.add_successes(key, lags, durations)
