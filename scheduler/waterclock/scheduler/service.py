"""The scheduler: owns partitions and decides what is due in them."""

import logging
from contextlib import AsyncExitStack

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import open_log
from waterclock.core.jetstream.job_definitions import Definitions
from waterclock.core.jetstream.log_identity import LogWatch
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.lifecycle import StopSignal, instance_id, ready
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tasks import supervised
from waterclock.core.store.factory import open_store
from waterclock.proto import names
from waterclock.scheduler.jetstream.adapters import Connections
from waterclock.scheduler.ownership import Ownership

_log = logging.getLogger(__name__)


async def run(settings: Settings, stop: StopSignal) -> None:
    instance = instance_id("scheduler")
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(open_log(settings, name=instance))
        await ensure_streams(connection, Layout(partitions=settings.partitions, replicas=settings.replicas))
        publisher = Publisher(connection)
        artifacts = open_store(settings, connection, publisher, names.ARTIFACTS)
        shared = Connections(
            connection=connection,
            publisher=publisher,
            definitions=Definitions(connection, publisher, settings.partitions),
            timing=Bucket(connection, publisher, names.TIMING),
            control=Bucket(connection, publisher, names.CONTROL),
            artifacts=await stack.enter_async_context(artifacts),
            instance=instance,
            partitions=settings.partitions,
        )
        stack.enter_context(shared.metrics.registered())
        log_watch = LogWatch(connection)
        await log_watch.check()
        partitions = await stack.enter_async_context(supervised())
        ownership = Ownership(shared, partitions, ttl=settings.lease_seconds)
        shared.metrics.watch(lambda: ownership.statuses)
        try:
            await ownership.first_round()
            ready()
            _log.info("scheduling", extra={"instance": instance, "partitions": len(ownership.statuses)})
            async with supervised() as tasks:
                tasks.keep(ownership.keep(), name="ownership of partitions")
                tasks.keep(log_watch.run(), name="log watch")
                await stop.wait()
        finally:
            await ownership.leave()
