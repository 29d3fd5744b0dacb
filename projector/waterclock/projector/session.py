"""Folding while all goes well: two connections to Postgres, one reading of the log.

A session ends by an error, by a change of our share of the partitions, or when the projector stops. All it knows is in
Postgres by then or can be read again, so whoever ends it need not be careful.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.log_identity import KnownStream
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.tasks import supervised
from waterclock.projector.fold.projection import FoldedBatch, Projection, WritePipeline
from waterclock.projector.metrics import METRICS
from waterclock.projector.pace import MOST_EVENTS, Pace
from waterclock.projector.read.batch_reader import BatchReader
from waterclock.projector.read.log_check import check_log, ends_if_caught_up
from waterclock.projector.read.positions import STREAMS, Positions, StreamEnd
from waterclock.projector.write.database import connect, statement
from waterclock.projector.write.transaction import Store
from waterclock.projector.write.week_partitions import WeekPartitions
from waterclock.proto import names

_IDLE = 10.0


class Session:
    def __init__(
        self, log: Connection, reader: BatchReader, projection: Projection, pipeline: WritePipeline
    ) -> None:
        self._log = log
        self._reader = reader
        self._projection = projection
        self._pipeline = pipeline
        self._pace = Pace(reader)
        self._ends: list[StreamEnd] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        log: Connection,
        database_url: str,
        instance: str,
        partitions: frozenset[int],
        careful_through: int = 0,
    ) -> AsyncIterator["Session"]:
        """`careful_through`: as for a `Projection`."""
        writing = await connect(database_url, name=instance)
        loading: asyncpg.Connection | None = None
        try:
            loading = await connect(database_url, name=instance)
            positions = await _load_positions(writing, log, partitions)
            weeks = WeekPartitions(writing)
            await weeks.open()
            await weeks.ensure_ahead(now_us())
            store = Store(writing, instance)
            await store.open()
            async with BatchReader.open(log, positions) as reader, supervised() as tasks:
                projection = Projection(loading, store, weeks, positions, careful_through)
                yield cls(log, reader, projection, WritePipeline(tasks))
        finally:
            writing.terminate()
            if loading is not None:
                loading.terminate()

    async def fold(self) -> None:
        """Batch after batch, for ever."""
        end = await self._log.nc.tap(names.FRESHNESS_WANTED, lambda *_: self._pace.hurry())
        try:
            while True:
                if not self._reader.is_ready:
                    await self._pipeline.finished()
                if await self._reader.wait(_IDLE):
                    await self._fold_once()
                else:
                    await self._follow()
        finally:
            end()

    async def _fold_once(self) -> None:
        began = await self._pace.next_batch()
        batch = self._reader.take(MOST_EVENTS, hurry=self._pace.is_wanted)
        folded = await self._projection.prepare(batch)
        await self._pipeline.begin(lambda: self._write(folded, began))
        self._pace.folded(folded.events)

    async def _follow(self) -> None:
        """Nothing came for a while: keep up with a log that goes on with other things than ours."""
        ends = await ends_if_caught_up(self._log, self._projection.positions, self._ends)
        if ends != self._ends:
            await self._projection.follow(ends)
            self._ends = ends

    async def _write(self, folded: FoldedBatch, began: float) -> None:
        await self._projection.write(folded, now_us())
        seconds = asyncio.get_running_loop().time() - began
        METRICS.batch_written(folded.events, seconds, folded.moves, self._reader.waiting)


async def _load_positions(
    database: asyncpg.Connection, log: Connection, partitions: frozenset[int]
) -> Positions:
    """Where to go on; refuses a log that is not the one these positions are in."""
    ours = sorted(partitions)
    for stream in STREAMS:
        created = instant_of((await stream_state(log, stream)).created)
        await database.execute(statement("begin_positions"), stream, ours, created)
    rows = await database.fetch(statement("positions"), ours)
    positions = Positions({(row["stream"], row["partition"]): row["position"] for row in rows})
    known = [KnownStream(**row) for row in await database.fetch(statement("known_streams"))]
    await check_log(log, known, positions)
    return positions
