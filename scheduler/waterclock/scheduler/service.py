"""The scheduler: owns partitions and decides what is due in them."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from waterclock.core.jetstream.access.work_consumers import making_work_consumers
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import open_log
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.job_definitions import Definitions
from waterclock.core.jetstream.log_identity import LogWatch
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.quarantined import quarantining
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.lifecycle import StopSignal, instance_id, ready
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tasks import supervised
from waterclock.core.store.factory import open_store
from waterclock.proto import names
from waterclock.proto.heartbeats import SchedulerHeartbeat, SchedulerLoad
from waterclock.proto.verdicts import InstanceState
from waterclock.scheduler.credit import Credit
from waterclock.scheduler.heartbeat import Heartbeat
from waterclock.scheduler.jetstream.adapters import Connections
from waterclock.scheduler.jetstream.executors import follow_slots
from waterclock.scheduler.jetstream.questions import answering_questions
from waterclock.scheduler.load import (
    LoadMeter,
    due_by_queue,
    lines_in_use,
    packed_by_queue,
    unserved_by_queue,
)
from waterclock.scheduler.ownership import Ownership

_SAY_GOODBYE = 1.0

_log = logging.getLogger(__name__)


async def run(settings: Settings, stop: StopSignal) -> None:
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(_connected(settings))
        stack.enter_context(shared.metrics.registered())
        stack.enter_context(quarantining(shared.connection, "scheduler"))
        log_watch = LogWatch(shared.connection)
        await log_watch.check()
        heartbeat = shared.heartbeat
        thread = await stack.enter_async_context(heartbeat.beating())
        around = await stack.enter_async_context(supervised())
        ownership = Ownership(
            shared, await stack.enter_async_context(supervised()), dead_after=settings.lease_seconds
        )
        await stack.enter_async_context(answering_questions(shared.connection, ownership.state_of))
        member = _Member(shared, ownership)
        shared.metrics.watch(lambda: ownership.statuses, lambda: member.load)
        around.keep(_ended(thread), name="thread of the heartbeat")
        around.keep(heartbeat.feed(member.describe, ownership.check), name="heartbeats of the scheduler")
        around.keep(ownership.membership.follow(), name="heartbeats of the other schedulers")
        slots = follow_slots(shared.control, shared.credit, member.slots_wanted)
        around.keep(slots, name="slots of the executors")
        around.keep(shared.lines.keep(lambda: lines_in_use(ownership.loads)), name="lines of the work queue")
        try:
            async with supervised() as tasks:
                tasks.keep(ownership.keep(), name="ownership of partitions")
                tasks.keep(log_watch.run(), name="log watch")
                tasks.spawn(_report_ready(ownership, shared.instance), name="first partitions")
                await stop.wait()
        finally:
            member.state = "leaving"
            heartbeat.send_now(member.describe())
            await ownership.leave()


@asynccontextmanager
async def _connected(settings: Settings) -> AsyncIterator[Connections]:
    instance = instance_id("scheduler")
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(open_log(settings, name=instance))
        reading = await stack.enter_async_context(open_log(settings, name=f"{instance} reader"))
        await ensure_streams(connection, Layout(partitions=settings.partitions, replicas=settings.replicas))
        publisher = Publisher(connection, deadline=None)
        artifacts = open_store(settings, reading, publisher, names.ARTIFACTS)
        shared = Connections(
            connection=connection,
            reading=reading,
            publisher=publisher,
            heartbeat=Heartbeat(settings, instance),
            definitions=Definitions(reading, publisher, settings.partitions),
            timing=Bucket(reading, publisher, names.TIMING),
            control=Bucket(connection, publisher, names.CONTROL),
            snapshots=Bucket(reading, publisher, names.CONTROL),
            artifacts=await stack.enter_async_context(artifacts),
            instance=instance,
            partitions=settings.partitions,
            credit=Credit(settings.partitions),
            lines=await stack.enter_async_context(making_work_consumers(connection)),
        )
        try:
            yield shared
        finally:
            await _say_goodbye(shared)


async def _say_goodbye(shared: Connections) -> None:
    try:
        async with asyncio.timeout(_SAY_GOODBYE):
            await shared.control.release(names.member_key("scheduler", shared.instance))
    except (TimeoutError, LogError):
        _log.info("the log is away: our heartbeat runs out by itself")


class _Member:
    """What this scheduler says of itself."""

    def __init__(self, shared: Connections, ownership: Ownership) -> None:
        self.state: InstanceState = "running"
        self.load = SchedulerLoad()
        self.slots_wanted = asyncio.Event()
        """There is work of which it is not known who serves it."""
        self._instance = shared.instance
        self._credit = shared.credit
        self._ownership = ownership
        self._meter = LoadMeter(shared.credit, shared.clock)
        self._started_at = time.time_ns() // 1000

    def describe(self) -> SchedulerHeartbeat:
        loads = self._ownership.loads
        self.load = self._meter.measure(loads)
        if self._credit.lacks_slots:
            self.slots_wanted.set()
        return SchedulerHeartbeat(
            instance=self._instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            at=time.time_ns() // 1000,
            state=self.state,
            partitions=self._ownership.statuses,
            load=self.load,
            due=due_by_queue(loads),
            packed=packed_by_queue(loads),
            unserved=unserved_by_queue(loads, self._credit.served) if self._credit.unserved.used else {},
            failing=self._ownership.failing(),
        )


async def _report_ready(ownership: Ownership, instance: str) -> None:
    await ownership.settled()
    ready()
    _log.info("scheduling", extra={"instance": instance, "partitions": len(ownership.statuses)})


async def _ended(thread: "asyncio.Future[None]") -> None:
    await thread
