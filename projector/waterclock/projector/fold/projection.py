"""A batch of the log becomes rows, and the position moves, in one transaction.

One batch on its way into Postgres while the next is prepared: each side then has a processor busy.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence

import asyncpg
from msgspec import Struct

from waterclock.projector.fold.batch_fold import Fold, Memory
from waterclock.projector.read.batch_reader import Batch
from waterclock.projector.read.positions import End, Positions
from waterclock.projector.write.store import REFUSALS, Move, Store, Writes, load_jobs, load_runs, writes_of
from waterclock.projector.write.week_partitions import Weeks
from waterclock.proto.events import Instant, ScheduleEnded
from waterclock.proto.names import job_of
from waterclock.proto.verdicts import TERMINAL


class Writing:
    """At most one write is under way. Its error is raised by whatever waits for it next."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def begin(self, write: Callable[[], Coroutine[None, None, None]]) -> None:
        """Once the one before is done."""
        await self.done()
        self._task = asyncio.create_task(write())

    async def done(self) -> None:
        if self._task is not None:
            await self._task
            self._task = None

    async def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


_log = logging.getLogger(__name__)

_RUNS_KEPT = 100_000
_JOBS_KEPT = 100_000


class Prepared(Struct, frozen=True, kw_only=True):
    """A batch folded, and not yet written."""

    events: int
    writes: Writes
    moves: Sequence[Move]


class Projection:
    """Remembers rows between batches. Memory is a shadow of what was written: after any failure it is thrown away
    with the projection, and the next one begins at the position that Postgres has.

    One batch may be prepared while the one before it is being written; so what a batch touched stays in memory
    until the next but one.
    """

    def __init__(self, reader: asyncpg.Connection, store: Store, weeks: Weeks, positions: Positions) -> None:
        self._reader = reader
        self._store = store
        self._weeks = weeks
        self.positions = positions
        self._memory = Memory()
        self._last = Memory()
        self._last_but_one: set[str] = set()

    async def prepare(self, batch: Batch) -> Prepared:
        self._forget()
        loaded = await self._remember(batch)
        fold = Fold(self._memory, loaded)
        for jobs in batch.jobs:
            fold.job_events(jobs.events, jobs.sequence)
        for runs in batch.runs:
            fold.run_events(runs.events, runs.sequence)
        changes = fold.finish()
        for trouble in changes.troubles:
            extra = {"about": trouble.about, "sequence": trouble.sequence}
            _log.error("left out what cannot be folded", extra=extra, exc_info=trouble.error)
        self._last_but_one = self._last.runs.keys() - changes.new_runs.keys() - changes.changed_runs.keys()
        self._last = Memory(
            runs={
                **{run_id: self._memory.runs[run_id] for run_id in loaded},
                **changes.new_runs,
                **changes.changed_runs,
            },
            jobs={**changes.states, **{job_id: new.head for job_id, new in changes.new_jobs.items()}},
        )
        moves = self.positions.moves(batch.ends)
        self.positions.moved(moves)
        return Prepared(events=batch.events, writes=writes_of(changes), moves=moves)

    async def write(self, prepared: Prepared, now: Instant) -> None:
        await self._weeks.ensure(prepared.writes.born, now)
        try:
            await self._store.write(prepared.writes, prepared.moves)
        except REFUSALS as error:
            _log.error("Postgres refuses rows: looking for them one by one", exc_info=error)
            await self._store.salvage(prepared.writes, prepared.moves)

    async def follow(self, ends: Sequence[End]) -> None:
        """Move on past messages that are not for us."""
        moves = self.positions.moves(ends)
        await self._store.write(Writes(), moves)
        self.positions.moved(moves)

    async def _remember(self, batch: Batch) -> dict[str, int]:
        """Load the rows the batch is about, unless they are in memory.

        Answers up to which sequence the rows that were loaded are folded: further than the batch, if they were
        carried over by a rebuild.
        """
        job_ids = {event.job_id for message in batch.jobs for event in message.events}
        run_ids: set[str] = set()
        for message in batch.runs:
            for event in message.events:
                (job_ids if type(event) is ScheduleEnded else run_ids).add(event.run_id)
        for run_id in run_ids:
            job_id = job_of(run_id)
            job_ids.add(job_id)
            if "~" in job_id:
                job_ids.add(job_id.partition("~")[0])
        memory = self._memory
        job_ids -= memory.jobs.keys()
        run_ids -= memory.runs.keys()
        if job_ids:
            memory.jobs.update(await load_jobs(self._reader, job_ids))
        if not run_ids:
            return {}
        rows = await load_runs(self._reader, run_ids, batch.runs[-1].stored_at)
        memory.runs.update(rows)
        return {run_id: row.last_sequence for run_id, row in rows.items()}

    def _forget(self) -> None:
        """Runs that ended are rarely heard of again; beyond a limit, everything that can be loaded."""
        runs = self._memory.runs
        for run_id in self._last_but_one:
            if run_id in runs and runs[run_id].status in TERMINAL:
                del runs[run_id]
        if len(runs) > _RUNS_KEPT:
            self._memory.runs = dict(self._last.runs)
        if len(self._memory.jobs) > _JOBS_KEPT:
            self._memory.jobs = dict(self._last.jobs)
