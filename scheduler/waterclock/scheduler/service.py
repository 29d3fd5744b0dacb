"""The scheduler: owns partitions and decides what is due in them."""

import asyncio
import logging
from contextlib import AsyncExitStack

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import open_log
from waterclock.core.jetstream.definitions import Definitions
from waterclock.core.jetstream.log_identity import LogWatch
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.clock import SystemClock
from waterclock.core.runtime.lifecycle import StopSignal, instance_id, ready
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.factory import open_store
from waterclock.proto import names
from waterclock.scheduler.ownership import Ownership
from waterclock.scheduler.ports import Ports

_log = logging.getLogger(__name__)


async def run(settings: Settings, stop: StopSignal) -> None:
    instance = instance_id("scheduler")
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(open_log(settings, name=instance))
        await ensure_streams(connection, Layout(partitions=settings.partitions, replicas=settings.replicas))
        publisher = Publisher(connection)
        artifacts = open_store(settings, connection, publisher, names.ARTIFACTS)
        ports = Ports(
            connection=connection,
            publisher=publisher,
            definitions=Definitions(connection, publisher, settings.partitions),
            timing=Bucket(connection, publisher, names.TIMING),
            control=Bucket(connection, publisher, names.CONTROL),
            artifacts=await stack.enter_async_context(artifacts),
            clock=SystemClock(),
            instance=instance,
            partitions=settings.partitions,
        )
        ownership = Ownership(ports, partitions=settings.partitions, ttl=settings.lease_seconds)
        ports.tally.watch(lambda: [held.status for held in ownership.owned])
        stack.enter_context(ports.tally.registered())
        log_watch = LogWatch(connection)
        await log_watch.check()
        await ownership.first_round()
        ready()
        _log.info("scheduling", extra={"instance": instance, "partitions": len(ownership.owned)})
        keeping = asyncio.create_task(ownership.keep())
        watching = asyncio.create_task(log_watch.run())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([keeping, watching, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in (keeping, watching):
                if task.done():
                    await task
        finally:
            for task in (keeping, watching, stopping):
                task.cancel()
            await asyncio.gather(keeping, watching, stopping, return_exceptions=True)
            await ownership.leave()
