"""A batch of the log becomes rows, and the position moves, in one transaction.

While one batch is on its way into Postgres the next is prepared (`WritePipeline`): so both processes are busy.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

import asyncpg
from msgspec import Struct
from msgspec.structs import astuple

from waterclock.core.domain.ids import job_of
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.readmodel.rows import dead_letter_row
from waterclock.core.domain.readmodel.short_life import (
    NewJob,
    OnlyRun,
    ShortLife,
    StoredOneShot,
    definition_of,
    ended_state_of,
    fired_state_of,
    new_state_of,
    only_run_row,
    run_of,
    waiting_one_shot,
)
from waterclock.core.runtime.tasks import Tasks
from waterclock.projector.fold.batch_fold import BatchFold, Changes, KnownRows
from waterclock.projector.fold.short_lives import ShortLives, count_successes, rows_known_of, run_events_of
from waterclock.projector.read.batch_reader import Batch
from waterclock.projector.read.positions import PositionMove, Positions, StreamEnd
from waterclock.projector.write.transaction import (
    ROW_REFUSED,
    Row,
    RowBatch,
    Store,
    load_due_one_shots,
    load_jobs,
    load_runs,
)
from waterclock.projector.write.week_partitions import WeekPartitions
from waterclock.proto.events import Instant, ScheduleEnded
from waterclock.proto.verdicts import TERMINAL

_log = logging.getLogger(__name__)

_RUNS_KEPT = 100_000
_JOBS_KEPT = 100_000


class RowsWereThere(Exception):
    """Jobs that were taken for new may not be: `JOBS` up to `through` is to be folded again with a look at them."""

    def __init__(self, through: int) -> None:
        super().__init__(f"jobs up to {through} were taken for new")
        self.through = through


class FoldedBatch(Struct, frozen=True, kw_only=True):
    """A batch that is folded, and not yet written."""

    events: int
    rows: RowBatch
    moves: Sequence[PositionMove]
    new_through: int = 0
    """Jobs were taken for new without a look, up to this sequence of `JOBS`."""


class Projection:
    """Remembers rows between batches. What it remembers is a copy of what was written: after any failure it is thrown
    away with the projection, and the next one begins at the position that Postgres has.

    One batch may be prepared while the one before it is being written; so what a batch touched is remembered until
    the next but one.
    """

    def __init__(
        self,
        reader: asyncpg.Connection,
        store: Store,
        weeks: WeekPartitions,
        positions: Positions,
        careful_through: int = 0,
    ) -> None:
        """`careful_through`: what `JOBS` has up to this sequence is never taken for new without a look."""
        self._reader = reader
        self._store = store
        self._weeks = weeks
        self.positions = positions
        self._careful_through = careful_through
        self._known = KnownRows()
        self._last = KnownRows()
        self._last_but_one: set[str] = set()
        self._last_created: Mapping[str, NewJob] = {}
        self._last_ended: Mapping[str, ShortLife] = {}
        self._last_only_runs: Mapping[str, OnlyRun] = {}
        self._part = min(positions.partitions, default=0)

    async def prepare(self, batch: Batch) -> FoldedBatch:
        self._drop_old()
        known = self._known.jobs.keys() | self._last_ended.keys() | self._last_only_runs.keys()
        lives = ShortLives(batch.jobs, batch.runs, known, self._careful_through, self._last_created)
        newest = batch.runs[-1].stored_at if batch.runs else 0
        fired = await self._look_for_one_shots(lives, newest)
        loaded = await self._load(lives, newest)
        fold = BatchFold(self._known, loaded)
        for sequence, jobs in lives.other_jobs:
            fold.fold_jobs(jobs, sequence)
        for sequence, runs in lives.other_runs:
            fold.fold_runs(runs, sequence)
        changes = fold.finish()
        count_successes(
            ((life[0].spec.namespace, life[2], life[4]) for life in lives.ended.values()), changes.stats
        )
        count_successes(((job.namespace, run[0], run[2]) for job, run in fired), changes.stats)
        for failure in changes.failures:
            extra = {"about": failure.subject_id, "sequence": failure.sequence}
            _log.error("left out what cannot be folded", extra=extra, exc_info=failure.error)
        self._last_but_one = self._last.runs.keys() - changes.new_runs.keys() - changes.changed_runs.keys()
        self._last = KnownRows(
            runs={
                **{run_id: self._known.runs[run_id] for run_id in loaded},
                **changes.new_runs,
                **changes.changed_runs,
            },
            jobs={**changes.job_states, **{job_id: new.job for job_id, new in changes.new_jobs.items()}},
        )
        self._last_created = lives.created
        self._last_ended = lives.ended
        self._last_only_runs = lives.only_runs
        moves = self.positions.moves_to(batch.ends)
        self.positions.apply(moves)
        return FoldedBatch(
            events=batch.events,
            rows=rows_of(changes, self._part, lives.created.values(), lives.ended.values(), fired),
            moves=moves,
            new_through=batch.jobs[-1].sequence if lives.created or lives.ended else 0,
        )

    async def write(self, folded: FoldedBatch, now: Instant) -> None:
        await self._weeks.ensure(folded.rows.new_run_times, now)
        try:
            await self._store.write(folded.rows, folded.moves)
        except ROW_REFUSED as error:
            if folded.new_through:
                raise RowsWereThere(folded.new_through) from error
            _log.error("Postgres refuses rows: looking for them one by one", exc_info=error)
            await self._store.write_what_is_accepted(folded.rows, folded.moves)

    async def follow(self, ends: Sequence[StreamEnd]) -> None:
        """Move on past messages that are not for us."""
        moves = self.positions.moves_to(ends)
        await self._store.write(RowBatch(), moves)
        self.positions.apply(moves)

    async def _look_for_one_shots(
        self, lives: ShortLives, newest: Instant
    ) -> list[tuple[StoredOneShot, OnlyRun]]:
        """Those that are as they were stored, with the only run of each. The others are given back."""
        runs = lives.only_runs
        known, waiting = self._known.runs, self._last_created
        asked, due = [], {}
        for job_id, run in runs.items():
            queued = run[0]
            if (job := waiting.get(job_id)) is None:
                if queued.run_id not in known:
                    asked.append((job_id, queued))
            elif (one_shot := waiting_one_shot(job, queued)) is not None:
                due[job_id] = one_shot
        if asked:
            stored = await load_due_one_shots(self._reader, asked)
            run_ids = [runs[job_id][0].run_id for job_id in stored]
            there = await load_runs(self._reader, run_ids, newest) if stored else {}
            due |= {job_id: job for job_id, job in stored.items() if runs[job_id][0].run_id not in there}
        for job_id in [*runs]:
            if job_id not in due:
                lives.give_back(job_id)
        return [(due[job_id], run) for job_id, run in runs.items()]

    async def _load(self, lives: ShortLives, newest: Instant) -> dict[str, int]:
        """Load the rows that the other events are about, unless they are known.

        Returns up to which sequence the rows that were loaded are folded: further than the batch, if they were
        carried over by a rebuild.
        """
        job_ids = {event.job_id for _, events in lives.other_jobs for event in events}
        run_ids: set[str] = set()
        for _, events in lives.other_runs:
            for event in events:
                (job_ids if type(event) is ScheduleEnded else run_ids).add(event.run_id)
        for run_id in run_ids:
            job_id = job_of(run_id)
            job_ids.add(job_id)
            if "~" in job_id:
                job_ids.add(job_id.partition("~")[0])
        known = self._known
        job_ids -= known.jobs.keys()
        for jobs in (self._last_created, self._last_ended, lives.created, lives.ended):
            remembered = rows_known_of(jobs[job_id] for job_id in job_ids & jobs.keys())
            known.jobs.update(remembered.jobs)
            known.runs.update(remembered.runs)
        run_ids -= known.runs.keys()
        if not_there := job_ids - known.jobs.keys():
            known.jobs.update(await load_jobs(self._reader, not_there))
        rows = await load_runs(self._reader, run_ids, newest) if run_ids else {}
        known.runs.update(rows)
        for only_runs in (self._last_only_runs, lives.only_runs):
            for job_id in only_runs.keys() & job_ids:
                self._remember(only_runs[job_id])
        return {run_id: row.last_sequence for run_id, row in rows.items()}

    def _remember(self, run: OnlyRun) -> None:
        """Its job was loaded or remembered without it. If it had been written by then, this changes nothing."""
        fold = BatchFold(self._known)
        for sequence, events in run_events_of(run):
            fold.fold_runs(events, sequence)
        fold.finish()

    def _drop_old(self) -> None:
        """Runs that ended rarely have further events; beyond a limit, everything that can be loaded."""
        runs = self._known.runs
        for run_id in self._last_but_one:
            if run_id in runs and runs[run_id].status in TERMINAL:
                del runs[run_id]
        if len(runs) > _RUNS_KEPT:
            self._known.runs = dict(self._last.runs)
        if len(self._known.jobs) > _JOBS_KEPT:
            self._known.jobs = dict(self._last.jobs)


class WritePipeline:
    """At most one write is under way. One that fails ends the owner of the tasks, and whoever waits for it."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._writing: asyncio.Task[None] | None = None

    async def begin(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Once the one before is done."""
        await self.finished()
        self._writing = self._tasks.spawn(write(), name="writing a batch")

    async def finished(self) -> None:
        if self._writing is not None:
            await self._writing
            self._writing = None


def rows_of(
    changes: Changes,
    part: int = 0,
    created: Collection[NewJob] = (),
    ended: Collection[ShortLife] = (),
    fired: Collection[tuple[StoredOneShot, OnlyRun]] = (),
) -> RowBatch:
    """Plain tuples, so that the fold may go on changing its rows while these are written. `part`: of the counts."""
    new_jobs = changes.new_jobs.values()
    return RowBatch(
        inserts=_not_empty(
            job_definitions=[definition.row() for definition in new_jobs],
            job_state=[definition.job.state_row() for definition in new_jobs],
            run_state=[
                *(astuple(row) for row in changes.new_runs.values()),
                *(only_run_row(job.job_id, job.namespace, run) for job, run in fired),
            ],
        ),
        presumed_new=_not_empty(
            job_definitions=[*map(definition_of, created), *map(definition_of, ended)],
            job_state=[*map(new_state_of, created), *map(ended_state_of, ended)],
            run_state=[*map(run_of, ended)],
        ),
        upserts=_not_empty(
            job_definitions=[definition.row() for definition in changes.changed_jobs.values()],
            job_state=[
                *(job.state_row() for job in changes.job_states.values()),
                *(fired_state_of(job, run) for job, run in fired),
            ],
            run_state=[astuple(row) for row in changes.changed_runs.values()],
            earlier_attempts=[astuple(attempt) for attempt in changes.attempts],
            dead_letters=[dead_letter_row(row) for row in changes.dead.values()],
            run_stats=changes.stats.rows(part),
        ),
        revived=list(changes.revived),
        new_run_times=frozenset(
            {row.created_at // SECOND * SECOND for row in changes.new_runs.values()}
            | {life[2].at // SECOND * SECOND for life in ended}
            | {run[0].at // SECOND * SECOND for _, run in fired}
        ),
    )


def _not_empty(**tables: list[Row]) -> dict[str, list[Row]]:
    return {table: rows for table, rows in tables.items() if rows}
