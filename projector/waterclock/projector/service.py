"""The projector: folds the log into the read models, for as long as it lives."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection, open_log
from waterclock.core.jetstream.errors import LogError, LogUnavailable
from waterclock.core.jetstream.log_identity import LogWatch, WrongLog, halt, lift_halt
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.quarantined import quarantining
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.lifecycle import StopSignal, instance_id, ready
from waterclock.core.runtime.processes.supervisor import Backoff
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tasks import supervised
from waterclock.projector.alerts import service as alerts
from waterclock.projector.fold.projection import RowsWereThere
from waterclock.projector.housekeeping import Housekeeping
from waterclock.projector.membership import Membership
from waterclock.projector.session import Session
from waterclock.projector.sql.migrator import SchemaTooNew, migrate
from waterclock.projector.write.database import SCHEMA, TRANSIENT, connect
from waterclock.projector.write.transaction import PositionMoved
from waterclock.proto import names

_TRANSIENT = (*TRANSIENT, TimeoutError, LogUnavailable, PositionMoved)
"""Errors that a new session cures."""
_FINAL = (SchemaTooNew, LogError)
"""Errors that somebody has to look at: trying again would not help, or do harm."""

_log = logging.getLogger(__name__)


async def run(settings: Settings, stop: StopSignal) -> None:
    """Until told to stop, or until one of its tasks ends."""
    if settings.database_url is None:
        raise ValueError("the projector needs database_url")
    instance = instance_id("projector")
    async with open_log(settings, name=instance) as log:
        with quarantining(log, "projector"):
            await _run(settings, settings.database_url, log, instance, stop)


async def _run(
    settings: Settings, database_url: str, log: Connection, instance: str, stop: StopSignal
) -> None:
    await ensure_streams(log, Layout(partitions=settings.partitions, replicas=settings.replicas))
    control = Bucket(log, Publisher(log), names.CONTROL)
    membership = Membership(control, instance, settings.partitions)
    await membership.heartbeat()
    projector = Projector(log, database_url, instance, membership, control)
    housekeeping = Housekeeping(log, control, settings, instance, membership)
    log_watch = LogWatch(log, heeds_halt=False)
    try:
        async with supervised() as tasks:
            tasks.keep(membership.run(), name="heartbeat")
            tasks.keep(projector.run(), name="folding")
            tasks.keep(housekeeping.run(projector.migrated), name="housekeeping")
            tasks.keep(alerts.run(settings, log, control, membership, instance), name="alerts")
            tasks.keep(log_watch.run(), name="watching the log")
            await stop.wait()
    finally:
        await membership.leave()


class Projector:
    """Session after session, through every outage of Postgres and of the log."""

    def __init__(
        self, log: Connection, database_url: str, instance: str, membership: Membership, control: Bucket
    ) -> None:
        self._log = log
        self._control = control
        self._database_url = database_url
        self._instance = instance
        self._membership = membership
        self._careful_through = 0
        self.migrated = asyncio.Event()

    async def run(self) -> None:
        await self._through_outages(self._migrate)
        self.migrated.set()
        while True:
            await self._through_outages(self._session)

    async def _through_outages(self, work: Callable[[], Awaitable[None]]) -> None:
        """Until it is done once."""
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                return await work()
            except _TRANSIENT as error:
                _log.warning("folding pauses", extra={"error": f"{type(error).__name__}: {error}"})
            except WrongLog as error:
                await halt(self._control, str(error))
                raise
            except _FINAL:
                raise
            except Exception:
                # A client may fail in many ways when its server dies. Nothing is lost by beginning anew.
                _log.exception("folding failed, and begins anew at the position in Postgres")
            ready()
            await asyncio.sleep(backoff.after(loop.time() - began))

    async def _migrate(self) -> None:
        connection = await connect(self._database_url, name=self._instance, patience=None)
        try:
            await migrate(connection, SCHEMA)
        finally:
            connection.terminate()

    async def _session(self) -> None:
        """Until our share of the partitions changes, or the log comes back from somewhere: is it still the same?"""
        membership = self._membership
        membership.changed.clear()
        forget = self._log.on_reconnect(membership.changed.set)
        try:
            partitions = membership.partitions
            async with Session.open(
                self._log, self._database_url, self._instance, partitions, self._careful_through
            ) as session:
                _log.info("folding", extra={"partitions": len(partitions)})
                await lift_halt(self._control)
                ready()
                async with supervised() as tasks:
                    tasks.keep(session.fold(), name="folding")
                    await membership.changed.wait()
        except RowsWereThere as error:
            self._careful_through = error.through
            _log.warning("folding again, with a look at every row", extra={"because": repr(error.__cause__)})
        finally:
            forget()
