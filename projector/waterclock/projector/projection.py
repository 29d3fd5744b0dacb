"""One pass: a batch of the log becomes rows, and the position moves, in one transaction."""

from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from waterclock.core.domain.run import TERMINAL
from waterclock.projector.feed import Batch
from waterclock.projector.fold import Changes, Fold, Memory
from waterclock.projector.partitions import Weeks
from waterclock.projector.positions import Positions
from waterclock.projector.store import Store
from waterclock.proto.events import Instant, ScheduleEnded
from waterclock.proto.names import job_of

_RUNS_KEPT = 100_000
_JOBS_KEPT = 100_000


class Pass(Struct, frozen=True):
    events: int
    rows: int


class Projection:
    """Remembers rows between passes. Memory is a shadow of the last commit: after any failure it is thrown away
    with the projection, and the next one begins at the position that Postgres has."""

    def __init__(self, store: Store, weeks: Weeks, positions: Positions) -> None:
        self._store = store
        self._weeks = weeks
        self.positions = positions
        self._memory = Memory()

    async def project(self, batch: Batch, now: Instant) -> Pass:
        applied = await self._remember(batch)
        fold = Fold(self._memory, applied)
        for jobs in batch.jobs:
            fold.job_events(jobs.events, jobs.sequence)
        for runs in batch.runs:
            fold.run_events(runs.events, runs.sequence)
        changes = fold.finish()
        await self._weeks.ensure({row.created_at for row in changes.new_runs.values()}, now)
        moves = self.positions.moves(batch.ends)
        await self._store.apply(changes, moves)
        self.positions.moved(moves)
        self._forget(changes, applied)
        return Pass(batch.events, len(changes.new_runs) + len(changes.changed_runs) + len(changes.states))

    async def _remember(self, batch: Batch) -> dict[str, int]:
        """Load the rows the batch is about, unless they are in memory.

        Answers up to which sequence the rows of runs have been folded: further than the batch if they were
        carried over by a rebuild.
        """
        run_ids = {
            event.run_id
            for message in batch.runs
            for event in message.events
            if type(event) is not ScheduleEnded
        }
        job_ids = {event.job_id for message in batch.jobs for event in message.events}
        ended = {
            event.run_id for message in batch.runs for event in message.events if type(event) is ScheduleEnded
        }
        for run_id in run_ids:
            job_id = job_of(run_id)
            job_ids.add(job_id)
            if "~" in job_id:
                job_ids.add(job_id.partition("~")[0])
        memory = self._memory
        job_ids |= ended
        job_ids -= memory.jobs.keys()
        run_ids -= memory.runs.keys()
        if job_ids:
            memory.jobs.update(await self._store.load_jobs(job_ids))
        if not run_ids:
            return {}
        rows = await self._store.load_runs(run_ids, batch.runs[-1].stored_at)
        memory.runs.update(rows)
        return {run_id: row.last_sequence for run_id, row in rows.items()}

    def _forget(self, changes: Changes, loaded: Iterable[str]) -> None:
        """Runs that ended are rarely heard of again; beyond a limit, what is needed can be loaded."""
        memory = self._memory
        runs = memory.runs
        for run_id in chain(changes.new_runs, changes.changed_runs, loaded):
            if run_id in runs and runs[run_id].status in TERMINAL:
                del runs[run_id]
        if len(runs) > _RUNS_KEPT:
            runs.clear()
        if len(memory.jobs) > _JOBS_KEPT:
            memory.jobs.clear()
