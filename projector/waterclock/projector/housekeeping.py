"""What is done beside the folding, and never in its way: who is there, and what may go."""

import asyncio
import logging
from itertools import count

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.processes.supervisor import Backoff
from waterclock.core.runtime.settings import Settings
from waterclock.projector.fleet_tables import Census
from waterclock.projector.membership import Share
from waterclock.projector.retention import Retention
from waterclock.projector.write.database import TRANSIENT, connect
from waterclock.projector.write.week_partitions import Weeks

_CENSUS = 2.0
_RETENTION = 30
"""Rounds between two passes of it."""

_log = logging.getLogger(__name__)


class Housekeeping:
    """One projector does it for all: the one that folds partition 0."""

    def __init__(
        self, log: Connection, control: Bucket, settings: Settings, instance: str, share: Share
    ) -> None:
        self._log = log
        self._control = control
        self._settings = settings
        self._instance = instance
        self._share = share

    async def run(self, migrated: asyncio.Event) -> None:
        await migrated.wait()
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._session()
            except (*TRANSIENT, TimeoutError, LogError) as error:
                _log.info("housekeeping pauses", extra={"error": f"{type(error).__name__}: {error}"})
            except Exception:
                _log.exception("housekeeping failed; folding goes on")
            await asyncio.sleep(backoff.after(loop.time() - began))

    async def _session(self) -> None:
        assert self._settings.database_url is not None
        database = await connect(self._settings.database_url, name=f"{self._instance}-housekeeping")
        try:
            census = Census(self._log, self._control, database)
            retention = Retention(database, Weeks(database), self._settings.retention_days)
            for round_number in count():
                if 0 in self._share.partitions:
                    await census.take(now_us())
                    if round_number % _RETENTION == 0:
                        await retention.forget(now_us())
                await asyncio.sleep(_CENSUS)
        finally:
            database.terminate()
