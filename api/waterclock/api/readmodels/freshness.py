"""How far the read models are, and reads that wait, but not for long, until they show what was written before."""

import asyncio
from datetime import datetime

from msgspec import Struct

from waterclock.api.readmodels.paging import SQL
from waterclock.api.readmodels.pool import Pool
from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.core.jetstream.log_identity import KnownStream
from waterclock.core.jetstream.messages import last_message
from waterclock.core.sql import load_statements
from waterclock.proto import names

_SQL = load_statements(SQL / "freshness.sql")
_PAUSE = 0.01
_PATIENCE = 1.0
"""Longer than a projector on a busy machine needs for what was just written; what lags by more is shown as it is."""
_MOMENT = 0.5
"""For listings of all runs: on a busy machine there is always something newer."""


class Folded(Struct, frozen=True):
    """How far a partition of a stream is folded in."""

    position: int
    event_time: datetime | None


class Freshness:
    def __init__(self, connection: Connection, pool: Pool) -> None:
        self._connection = connection
        self._pool = pool
        self._tell = Broadcast(connection)
        self._written: dict[int, int] = {}

    def wrote(self, partition: int, version: int) -> None:
        """This process has accepted a definition."""
        self._written[partition] = max(version, self._written.get(partition, 0))

    async def of_own_definitions(self) -> None:
        """Wait until the definitions accepted here are in the read models."""
        for partition, version in list(self._written.items()):
            if not await self._reached(names.JOBS, partition, version):
                return
            if self._written.get(partition) == version:
                del self._written[partition]

    async def of_runs(self, partition: int) -> bool:
        """Whether all that has happened to a partition's runs until now is in the read models."""
        newest = await last_message(self._connection, names.RUNS, names.runs_subject(partition))
        return newest is None or await self._reached(names.RUNS, partition, newest.sequence)

    async def of_all_runs(self) -> None:
        """Wait a moment until the newest of what has happened to any run is in the read models."""
        last = await last_message(self._connection, names.RUNS, names.runs_subject())
        newest = 0 if last is None else last.sequence
        deadline = asyncio.get_running_loop().time() + _MOMENT
        while asyncio.get_running_loop().time() < deadline:
            if (
                max((p.position for p in (await positions(self._pool, names.RUNS)).values()), default=0)
                >= newest
            ):
                return
            self._tell(names.FRESHNESS_WANTED, b"")
            await asyncio.sleep(_PAUSE * 2)

    async def _reached(self, stream: str, partition: int, sequence: int) -> bool:
        """Each look that finds it not there yet tells the projectors, which gather events while nobody waits."""
        pause = _PAUSE
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while await position(self._pool, stream, partition) < sequence:
            if asyncio.get_running_loop().time() + pause > deadline:
                return False
            self._tell(names.FRESHNESS_WANTED, b"")
            await asyncio.sleep(pause)
            pause *= 1.5
        return True


async def position(pool: Pool, stream: str, partition: int) -> int:
    """The last sequence of a stream that is folded into the read models of a partition."""
    row = await pool.fetch_one(_SQL["position"], stream, partition)
    return 0 if row is None else int(row["position"])


async def positions(pool: Pool, stream: str) -> dict[int, Folded]:
    """How far each partition of a stream is folded in."""
    rows = await pool.fetch(_SQL["positions"], stream)
    return {row["partition"]: Folded(row["position"], row["event_time"]) for row in rows}


async def known_streams(pool: Pool) -> list[KnownStream]:
    """What the read models remember of the streams they were made from."""
    return [
        KnownStream(
            stream=row["stream"], created=instant_of(row["created"]), last_sequence=row["last_sequence"]
        )
        for row in await pool.fetch(_SQL["known_streams"])
    ]
