"""Reads that see the writes before them, although the read models lag: wait for the position, but not for long."""

import asyncio

from waterclock.api.readmodels import runs
from waterclock.api.readmodels.pool import Pool
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.reader import last_message
from waterclock.proto import names

_PATIENCE = 1.0
_PAUSE = 0.01


class Freshness:
    def __init__(self, connection: Connection, pool: Pool) -> None:
        self._connection = connection
        self._pool = pool

    async def of_job(self, partition: int, version: int) -> bool:
        """Whether a definition's version is in the read models, or came to be there."""
        return await self._reached(names.JOBS, partition, version)

    async def of_runs(self, partition: int) -> bool:
        """Whether all that has happened to a partition's runs until now is in the read models."""
        newest = await last_message(self._connection, names.RUNS, names.runs_subject(partition))
        return newest is None or await self._reached(names.RUNS, partition, newest.sequence)

    async def _reached(self, stream: str, partition: int, sequence: int) -> bool:
        pause = _PAUSE
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while await runs.position(self._pool, stream, partition) < sequence:
            if asyncio.get_running_loop().time() + pause > deadline:
                return False
            await asyncio.sleep(pause)
            pause *= 1.5
        return True
