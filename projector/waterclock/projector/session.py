"""Folding while all goes well: one connection to Postgres, one reading of the log.

A session ends by an error, by a change of our share, or when told to stop. All it knows is in Postgres by then
or can be read again, so whoever ends it need not be careful.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.log_identity import KnownStream
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.runtime.clock import now_us
from waterclock.projector.fold.projection import Prepared, Projection, Writing
from waterclock.projector.metrics import TALLY
from waterclock.projector.read.batch_reader import Feed
from waterclock.projector.read.log_check import caught_up, check_log
from waterclock.projector.read.positions import STREAMS, Positions
from waterclock.projector.sql.statements import statement
from waterclock.projector.write.database import connect
from waterclock.projector.write.store import Store
from waterclock.projector.write.week_partitions import Weeks

_EVENTS = 60_000
"""Events folded at once, at most."""
_GAPS = ((10_000, 1.0), (2_000, 0.4), (200, 0.1), (0, 0.03))
"""After a pass of so many events the next one gathers for so long: a run that was queued and ended in between is
then one row, written once."""
_IDLE = 10.0

_log = logging.getLogger(__name__)


class Session:
    def __init__(self, log: Connection, feed: Feed, projection: Projection) -> None:
        self._log = log
        self._feed = feed
        self._projection = projection
        self._writing = Writing()
        self._last = 0.0
        self._gap = 0.0

    @classmethod
    @asynccontextmanager
    async def open(
        cls, log: Connection, database_url: str, instance: str, partitions: frozenset[int]
    ) -> AsyncIterator["Session"]:
        database = await connect(database_url, name=instance)
        reader: asyncpg.Connection | None = None
        try:
            reader = await connect(database_url, name=instance)
            positions = await _positions(database, log, partitions)
            weeks = Weeks(database)
            await weeks.open()
            await weeks.ensure_ahead(now_us())
            store = Store(database, instance)
            await store.open()
            async with Feed.open(log, positions) as feed:
                session = cls(log, feed, Projection(reader, store, weeks, positions))
                try:
                    yield session
                finally:
                    await session._writing.abandon()
        finally:
            database.terminate()
            if reader is not None:
                reader.terminate()

    async def fold(self) -> None:
        """Pass after pass, for ever."""
        while True:
            if not self._feed.is_ready:
                await self._writing.done()
            if await self._feed.some(_IDLE):
                await self._fold_once()
            else:
                await self._follow()

    async def _fold_once(self) -> None:
        """A lone event is folded at once; in a stream of them, those of a moment together."""
        loop = asyncio.get_running_loop()
        await self._feed.filled(_EVENTS, self._last + self._gap - loop.time())
        self._last = began = loop.time()
        prepared = await self._projection.prepare(self._feed.take(_EVENTS))
        await self._writing.begin(lambda: self._write(prepared, began))
        self._gap = next(gap for events, gap in _GAPS if prepared.events >= events)

    async def _write(self, prepared: Prepared, began: float) -> None:
        await self._projection.write(prepared, now_us())
        seconds = asyncio.get_running_loop().time() - began
        TALLY.folded(prepared.events, seconds, prepared.moves, self._feed.waiting)

    async def _follow(self) -> None:
        """Nothing came for a while: keep up with a log that goes on with other things than ours."""
        await self._projection.follow(await caught_up(self._log, self._projection.positions))


async def _positions(database: asyncpg.Connection, log: Connection, partitions: frozenset[int]) -> Positions:
    """Where to go on; refuses a log that is not the one these positions are in."""
    ours = sorted(partitions)
    for stream in STREAMS:
        created = instant_of((await stream_state(log, stream)).created)
        await database.execute(statement("begin_positions"), stream, ours, created)
    rows = await database.fetch(statement("positions"), ours)
    positions = Positions({(row["stream"], row["partition"]): row["position"] for row in rows})
    known = [KnownStream(**row) for row in await database.fetch(statement("seen"))]
    await check_log(log, known, positions)
    return positions
