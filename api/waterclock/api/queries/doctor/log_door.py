"""Runs as the log has them, and how far the read models are with it."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping

from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.queries.doctor.agreement import LoggedRun
from waterclock.api.readmodels.freshness import positions
from waterclock.core.domain.explain.explanation import Recorded
from waterclock.core.domain.ids import namespace_of
from waterclock.core.jetstream.connection import Broadcast
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.runtime.quarantine import read_frame
from waterclock.proto import names

_PAUSE = 0.1


class LogEnds(Struct, frozen=True):
    """The newest message of each partition, when it was looked at."""

    jobs: Mapping[int, int]
    runs: Mapping[int, int]
    first_run: int
    """The first sequence of `RUNS` that the log still has."""


async def log_ends(app: Application) -> LogEnds:
    jobs: dict[int, int] = {}
    runs: dict[int, int] = {}
    for partition in range(app.settings.partitions):
        job = await last_message(app.connection, names.JOBS, names.jobs_of_partition(partition))
        run = await last_message(app.connection, names.RUNS, names.runs_subject(partition))
        jobs[partition] = 0 if job is None else job.sequence
        runs[partition] = 0 if run is None else run.sequence
    return LogEnds(jobs, runs, (await stream_state(app.connection, names.RUNS)).first_seq)


async def read_models_reach(app: Application, ends: LogEnds, patience: float) -> bool:
    """Wait until all up to there is in the read models; whether it is in time."""
    wanted = Broadcast(app.connection)
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        behind = False
        for stream, reached in ((names.JOBS, ends.jobs), (names.RUNS, ends.runs)):
            folded = await positions(app.pool, stream)
            behind = behind or any(
                sequence and (partition not in folded or folded[partition].position < sequence)
                for partition, sequence in reached.items()
            )
        if not behind:
            return True
        if asyncio.get_running_loop().time() > deadline:
            return False
        wanted(names.FRESHNESS_WANTED, b"")
        await asyncio.sleep(_PAUSE)


async def logged_runs(
    app: Application,
    partition: int,
    namespace: str,
    after: int,
    through: int,
    wanted: Collection[str] | None = None,
) -> dict[str, LoggedRun]:
    """The runs of a partition with an event in (after, through]; None: all of the namespace."""
    found: dict[str, LoggedRun] = {}
    if through <= after:
        return found
    async for record in _records(app, partition, after, through):
        run_id = record.event.run_id
        if (run_id in wanted) if wanted is not None else (namespace_of(run_id) == namespace):
            if run_id not in found:
                found[run_id] = LoggedRun()
            found[run_id].add(record, namespace)
    return {run_id: run for run_id, run in found.items() if run.row is not None}


async def _records(app: Application, partition: int, after: int, through: int) -> AsyncIterator[Recorded]:
    subject = names.runs_subject(partition)
    async with Pull.ordered(app.connection, names.RUNS, [subject], after_sequence=after, batch=1000) as pull:
        async for delivery in pull.through(through):
            frame = read_frame(delivery)
            for event in frame.events:
                yield Recorded(sequence=delivery.sequence, writer=frame.writer, event=event)
            await asyncio.sleep(0)
