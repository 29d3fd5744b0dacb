"""Makes the read models anew from the log, beside the live ones, and puts them in their place at once.

The live tables are read and written all the while. Only for the last moment the live projector is held, until the
new tables have come as far as the live ones; then the two schemas change names in one transaction.
"""

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
from waterclock.projector.fold.projection import Projection, Writing
from waterclock.projector.read.batch_reader import Feed
from waterclock.projector.read.log_check import caught_up, last_of
from waterclock.projector.read.positions import STREAMS, Positions
from waterclock.projector.rebuild.carry_over import Carried, Gone, carry_over, gone
from waterclock.projector.rebuild.schema_switch import (
    NEXT,
    RebuildRefused,
    drop_leftovers,
    refuse_views_outside,
    switch,
)
from waterclock.projector.retention import Retention
from waterclock.projector.sql.migrations import migrate
from waterclock.projector.sql.statements import statement
from waterclock.projector.write.database import SCHEMA, connect
from waterclock.projector.write.store import Store
from waterclock.projector.write.week_partitions import Weeks
from waterclock.proto import names

__all__ = ["RebuildProgress", "RebuildRefused", "RebuildResult", "rebuild"]

Stage = Literal["definitions", "history", "runs", "indexes", "switch"]

_EVENTS = 20_000
"""Events folded at once."""
_LOCK = 0x77617465_6E657874


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
    if settings.database_url is None:
        raise ValueError("a rebuild needs database_url")
    name = instance_id("rebuild")
    async with open_log(settings, name=name) as log:
        database = await connect(settings.database_url, name=name, schema=NEXT, patience=None)
        reader = await connect(settings.database_url, name=name, schema=NEXT, patience=None)
        try:
            async with _alone(database):
                await migrate(database, SCHEMA)
                await refuse_views_outside(database)
                await drop_leftovers(database)
                await migrate(database, NEXT)
                work = _Rebuild(log, database, reader, settings, name, progress)
                with infrequent_garbage_collection():
                    return await work.run(settings.database_url)
        finally:
            database.terminate()
            reader.terminate()


@asynccontextmanager
async def _alone(database: asyncpg.Connection) -> AsyncIterator[None]:
    if not await database.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        raise RebuildRefused("another rebuild is running")
    try:
        yield
    finally:
        if not database.is_closed():
            await database.execute("SELECT pg_advisory_unlock($1)", _LOCK)


class _Rebuild:
    def __init__(
        self,
        log: Connection,
        database: asyncpg.Connection,
        reader: asyncpg.Connection,
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
        self._reader = reader
        self._store = Store(database, name)
        self._weeks = Weeks(database)
        self._projection = Projection(reader, self._store, self._weeks, self._positions)
        self._writing = Writing()
        self._began = time.monotonic()
        self._stage: Stage = "definitions"
        self._events = 0
        self._folding = 0.0
        self._ends = dict.fromkeys(STREAMS, 0)

    async def run(self, url: str) -> RebuildResult:
        lost = await self._begin()
        indexes = await self._take_indexes()
        async with Feed.open(self._log, self._positions, (names.JOBS,)) as feed:
            await self._fold(feed, names.JOBS)
        self._enter("history")
        carried = await carry_over(self._database, self._store, self._weeks, lost, now_us())
        # What was carried over is not in the memory of the projection that folded the definitions.
        self._projection = Projection(self._reader, self._store, self._weeks, self._positions)
        self._enter("runs")
        async with Feed.open(self._log, self._positions) as feed:
            await self._fold(feed, *STREAMS)
            self._enter("indexes")
            for definition in indexes:
                await self._database.execute(definition)
            await self._database.execute(
                "ANALYZE job_definitions, job_state, job_runs, earlier_attempts, dead_letters"
            )
            await self._fold(feed, *STREAMS)
            await Retention(self._database, self._weeks, self._settings.retention_days).forget(now_us())
            self._enter("switch")

            async def reach(held: dict[tuple[str, int], int]) -> None:
                """Where the live projector was held, unless that was in another log."""
                await self._reach(feed, held if lost.is_ordinary else {})

            await switch(url, self._name, reach)
        return self._result(carried)

    async def _begin(self) -> Gone:
        known = {
            row["stream"]: KnownStream(**row)
            for row in await self._database.fetch(
                "SELECT stream, stream_created AS created, max(stream_last_sequence) AS last_sequence "
                f"FROM {SCHEMA}.projection_state GROUP BY stream, stream_created"
            )
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
        return gone(known.get(names.RUNS), await stream_state(self._log, names.RUNS))

    async def _take_indexes(self) -> list[str]:
        """Drop what only makes reading faster; made at the end, each takes one sort instead of a million searches."""
        rows = await self._database.fetch(statement("secondary_indexes"), NEXT)
        for row in rows:
            await self._database.execute(f"DROP INDEX {row['name']}")
        return [row["definition"].replace(" ON ONLY ", " ON ") for row in rows]

    async def _fold(self, feed: Feed, *streams: str) -> None:
        """As far as these streams go now."""
        for stream in streams:
            ends = [await last_of(self._log, stream, partition) for partition in self._positions.partitions]
            self._ends[stream] = max(ends)
        began = time.monotonic()
        while any(self._positions.start(stream) < self._ends[stream] for stream in streams):
            if await feed.some(1.0):
                await self._fold_once(feed)
        await self._writing.done()
        self._folding += time.monotonic() - began

    async def _reach(self, feed: Feed, targets: dict[tuple[str, int], int]) -> None:
        while any(self._positions.of(*key) < target for key, target in targets.items()):
            if await feed.some(0.1):
                await self._fold_once(feed)
            else:
                await self._writing.done()
                await self._projection.follow(await caught_up(self._log, self._positions))
        await self._writing.done()

    async def _fold_once(self, feed: Feed) -> None:
        prepared = await self._projection.prepare(feed.take(_EVENTS))
        await self._writing.begin(lambda: self._projection.write(prepared, now_us()))
        self._events += prepared.events
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

    def _result(self, carried: Carried) -> RebuildResult:
        return RebuildResult(
            events=self._events,
            carried_jobs=carried.jobs,
            carried_runs=carried.runs,
            seconds=time.monotonic() - self._began,
            events_per_second=self._events / max(self._folding, 1e-6),
        )
