"""Makes the read models anew from the log, beside the live ones, and puts them in their place in one transaction.

The live tables are read and written all the while. Only at the end the live projector is held, until the new tables
have come as far as the live ones; then the two schemas change names.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import asyncpg
from msgspec import Struct

from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream.connection import Connection, open_log
from waterclock.core.jetstream.log_identity import KnownStream
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.lifecycle import infrequent_garbage_collection, instance_id
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tasks import supervised
from waterclock.projector.fold.projection import Projection, RowsWereThere, WritePipeline
from waterclock.projector.pace import MOST_EVENTS
from waterclock.projector.read.batch_reader import BatchReader
from waterclock.projector.read.log_check import ends_if_caught_up, last_sequence
from waterclock.projector.read.positions import STREAMS, Positions
from waterclock.projector.rebuild.carry_over import CarriedOver, MissingRuns, carry_over, missing_runs
from waterclock.projector.rebuild.schema_switch import (
    NEXT,
    RebuildRefused,
    drop_leftover_schemas,
    refuse_foreign_views,
    switch_schemas,
)
from waterclock.projector.retention import Retention
from waterclock.projector.sql.migrator import migrate
from waterclock.projector.write.database import SCHEMA, connect, statement
from waterclock.projector.write.transaction import Store
from waterclock.projector.write.week_partitions import WeekPartitions
from waterclock.proto import names

__all__ = ["RebuildProgress", "RebuildRefused", "RebuildResult", "rebuild"]

Stage = Literal["definitions", "history", "runs", "indexes", "switch"]

_EVENTS = MOST_EVENTS
"""Folded at once."""
_GATHER = 0.5
"""Seconds to wait until as many events have arrived as are folded at once."""
_ALWAYS = 2**62
"""Jobs that were carried over may be in the part of the log that is folded after it."""
_LOCK = 0x77617465_6E657874

_log = logging.getLogger(__name__)


class RebuildProgress(Struct, frozen=True, kw_only=True):
    stage: Stage
    events: int
    """Folded so far."""
    done: float
    """Share of the log that is read, 0 to 1."""
    seconds: float


class RebuildResult(Struct, frozen=True, kw_only=True):
    events: int
    carried_jobs: int
    carried_runs: int
    seconds: float
    events_per_second: float
    """While folding."""


async def rebuild(settings: Settings, progress: Callable[[RebuildProgress], None]) -> RebuildResult:
    try:
        return await _rebuild(settings, progress, at_once=True)
    except (RowsWereThere, _LogHasGone) as error:
        _log.warning("rebuilding again, step by step", extra={"because": str(error)})
        return await _rebuild(settings, progress, at_once=False)


class _LogHasGone(Exception):
    """A part of the log was dropped while it was read."""


async def _rebuild(
    settings: Settings, progress: Callable[[RebuildProgress], None], *, at_once: bool
) -> RebuildResult:
    """`at_once`: definitions and runs together, if there is nothing to carry over."""
    if settings.database_url is None:
        raise ValueError("a rebuild needs database_url")
    name = instance_id("rebuild")
    async with open_log(settings, name=name) as log:
        database = await connect(settings.database_url, name=name, schema=NEXT, patience=None)
        loading = await connect(settings.database_url, name=name, schema=NEXT, patience=None)
        try:
            async with _only_one(database), supervised() as tasks:
                await migrate(database, SCHEMA)
                await refuse_foreign_views(database)
                await drop_leftover_schemas(database)
                await migrate(database, NEXT)
                work = _Rebuilder(log, database, loading, WritePipeline(tasks), settings, name, progress)
                with infrequent_garbage_collection():
                    return await work.run(settings.database_url, at_once=at_once)
        finally:
            database.terminate()
            loading.terminate()


@asynccontextmanager
async def _only_one(database: asyncpg.Connection) -> AsyncIterator[None]:
    if not await database.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        raise RebuildRefused("another rebuild is running")
    try:
        yield
    finally:
        if not database.is_closed():
            await database.execute("SELECT pg_advisory_unlock($1)", _LOCK)


class _Rebuilder:
    def __init__(
        self,
        log: Connection,
        database: asyncpg.Connection,
        loading: asyncpg.Connection,
        pipeline: WritePipeline,
        settings: Settings,
        name: str,
        progress: Callable[[RebuildProgress], None],
    ) -> None:
        self._log = log
        self._database = database
        self._settings = settings
        self._name = name
        self._progress = progress
        self._positions = Positions(
            {(stream, partition): 0 for stream in STREAMS for partition in range(settings.partitions)}
        )
        self._loading = loading
        self._pipeline = pipeline
        self._store = Store(database, name)
        self._weeks = WeekPartitions(database)
        self._projection = self._careful_projection()
        self._began = time.monotonic()
        self._stage: Stage = "definitions"
        self._events = 0
        self._folding = 0.0
        self._ends = dict.fromkeys(STREAMS, 0)

    async def run(self, url: str, *, at_once: bool) -> RebuildResult:
        missing = await self._begin()
        indexes = await self._drop_indexes()
        beginnings = await self._beginnings()
        is_whole = at_once and missing.is_same_log and await self._is_whole(beginnings)
        if is_whole:
            carried = CarriedOver(jobs=0, runs=0)
            self._projection = Projection(self._loading, self._store, self._weeks, self._positions)
        else:
            carried = await self._fold_definitions(missing)
        self._enter("runs")
        async with BatchReader.open(self._log, self._positions) as reader:
            await self._fold(reader, *STREAMS)
            if is_whole and beginnings != await self._beginnings():
                raise _LogHasGone("a part of the log was dropped while it was read")
            self._enter("indexes")
            for definition in indexes:
                await self._database.execute(definition)
            await self._database.execute(
                "ANALYZE job_definitions, job_state, run_state, earlier_attempts, dead_letters"
            )
            await self._fold(reader, *STREAMS)
            await Retention(self._database, self._weeks, self._settings.retention_days).delete_expired(
                now_us()
            )
            self._enter("switch")

            async def catch_up(held: dict[tuple[str, int], int]) -> None:
                """To where the live projector was held, unless that was in another log."""
                await self._fold_to(reader, held if missing.is_same_log else {})

            await switch_schemas(url, self._name, catch_up)
        return self._result(carried)

    async def _beginnings(self) -> tuple[int, int] | None:
        """Where the streams begin. None: `JOBS` has dropped something in between."""
        jobs = await stream_state(self._log, names.JOBS)
        runs = await stream_state(self._log, names.RUNS)
        return None if jobs.messages < jobs.last_seq else (jobs.first_seq, runs.first_seq)

    async def _is_whole(self, beginnings: tuple[int, int] | None) -> bool:
        """Whether the log has all that the live tables have been made from. Then there is nothing to carry over; a job
        is folded with its runs, and most are written once."""
        if beginnings is None:
            return False
        _, runs_begin = beginnings
        return not await self._database.fetchval(statement("is_anything_to_carry"), runs_begin)

    async def _fold_definitions(self, missing: MissingRuns) -> CarriedOver:
        """Before the runs, and with what is carried over: a run's events look up its job."""
        async with BatchReader.open(self._log, self._positions, (names.JOBS,)) as reader:
            await self._fold(reader, names.JOBS)
        self._enter("history")
        carried = await carry_over(self._database, self._store, self._weeks, missing, now_us())
        # What was carried over is not in the memory of the projection that folded the definitions.
        self._projection = self._careful_projection()
        return carried

    def _careful_projection(self) -> Projection:
        return Projection(self._loading, self._store, self._weeks, self._positions, _ALWAYS)

    async def _begin(self) -> MissingRuns:
        known = {
            row["stream"]: KnownStream(**row)
            for row in await self._database.fetch(statement("live_known_streams"))
        }
        for stream in STREAMS:
            state = await stream_state(self._log, stream)
            await self._database.execute(
                statement("begin_positions"),
                stream,
                list(self._positions.partitions),
                instant_of(state.created),
            )
        await self._weeks.open()
        await self._weeks.ensure_ahead(now_us())
        await self._store.open()
        return missing_runs(known.get(names.RUNS), await stream_state(self._log, names.RUNS))

    async def _drop_indexes(self) -> list[str]:
        """Drop what only makes reading faster; made at the end, each takes one sort instead of a million searches."""
        rows = await self._database.fetch(statement("secondary_indexes"), NEXT)
        for row in rows:
            await self._database.execute(f"DROP INDEX {row['name']}")
        return [row["definition"].replace(" ON ONLY ", " ON ") for row in rows]

    async def _fold(self, reader: BatchReader, *streams: str) -> None:
        """As far as these streams go now."""
        for stream in streams:
            ends = [
                await last_sequence(self._log, stream, partition) for partition in self._positions.partitions
            ]
            self._ends[stream] = max(ends)
        began = time.monotonic()
        while any(self._positions.start(stream) < self._ends[stream] for stream in streams):
            if await reader.wait(1.0):
                await reader.gather(_EVENTS, _GATHER)
                await self._fold_once(reader)
        await self._pipeline.finished()
        self._folding += time.monotonic() - began

    async def _fold_to(self, reader: BatchReader, targets: dict[tuple[str, int], int]) -> None:
        while any(self._positions.of(*key) < target for key, target in targets.items()):
            if await reader.wait(0.1):
                await self._fold_once(reader)
            else:
                await self._pipeline.finished()
                await self._projection.follow(await ends_if_caught_up(self._log, self._positions, []))
        await self._pipeline.finished()

    async def _fold_once(self, reader: BatchReader) -> None:
        folded = await self._projection.prepare(reader.take(_EVENTS))
        await self._pipeline.begin(lambda: self._projection.write(folded, now_us()))
        self._events += folded.events
        self._report()

    def _enter(self, stage: Stage) -> None:
        self._stage = stage
        self._report()

    def _report(self) -> None:
        read = sum(min(self._positions.start(stream), end) for stream, end in self._ends.items())
        self._progress(
            RebuildProgress(
                stage=self._stage,
                events=self._events,
                done=read / max(sum(self._ends.values()), 1),
                seconds=time.monotonic() - self._began,
            )
        )

    def _result(self, carried: CarriedOver) -> RebuildResult:
        return RebuildResult(
            events=self._events,
            carried_jobs=carried.jobs,
            carried_runs=carried.runs,
            seconds=time.monotonic() - self._began,
            events_per_second=self._events / max(self._folding, 1e-6),
        )
