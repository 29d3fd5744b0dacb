"""Reads that see the writes before them, although the read models lag: wait for the position, but not for long."""

import asyncio

from waterclock.api.readmodels import runs
from waterclock.api.readmodels.pool import Pool
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import last_message
from waterclock.proto import names

_PAUSE = 0.01
_PATIENCE = 1.0
"""Longer than a projector on a busy machine needs for what was just written; what lags by more is shown as it is."""


class Freshness:
    def __init__(self, connection: Connection, pool: Pool) -> None:
        self._connection = connection
        self._pool = pool
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

    async def _reached(self, stream: str, partition: int, sequence: int) -> bool:
        pause = _PAUSE
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while await runs.position(self._pool, stream, partition) < sequence:
            if asyncio.get_running_loop().time() + pause > deadline:
                return False
            await asyncio.sleep(pause)
            pause *= 1.5
        return True
