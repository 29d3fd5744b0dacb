"""What one projector does for all beside the folding: it refreshes the tables of executors and queues, counts how runs
of jobs went, and deletes what is past its retention."""

import asyncio
import logging

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.processes.supervisor import Backoff
from waterclock.core.runtime.settings import Settings
from waterclock.projector.fleet_tables import FleetTables
from waterclock.projector.flood import Flood
from waterclock.projector.job_stats import JobStats
from waterclock.projector.membership import Membership
from waterclock.projector.metrics import METRICS
from waterclock.projector.retention import Retention
from waterclock.projector.write.database import TRANSIENT, connect
from waterclock.projector.write.week_partitions import WeekPartitions

_EVERY = 2.0

_log = logging.getLogger(__name__)


class Housekeeping:
    """One projector does it for all: the one that folds partition 0."""

    def __init__(
        self, log: Connection, control: Bucket, settings: Settings, instance: str, membership: Membership
    ) -> None:
        self._log = log
        self._control = control
        self._settings = settings
        self._instance = instance
        self._membership = membership

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
            fleet_tables = FleetTables(self._log, self._control, database)
            retention = Retention(database, WeekPartitions(database), self._settings.retention_days)
            job_stats = JobStats(database)
            flood = Flood(lambda: METRICS.events)
            while True:
                if 0 in self._membership.partitions:
                    is_flooded = flood.is_on()
                    await fleet_tables.refresh(now_us())
                    await job_stats.count_next(is_flooded=is_flooded)
                    await retention.keep(now_us(), is_flooded=is_flooded)
                await asyncio.sleep(_EVERY)
        finally:
            database.terminate()
