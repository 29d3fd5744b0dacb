"""What Prometheus reads about the whole fleet: queues, executors, partitions, how far behind it all is.

Every api could tell it, and whoever reads them all and adds up would count everything as often as there are apis. So
one of them speaks for the fleet: the one that was read first, for as long as it is read, and another when it has left
or is not read for a while.
"""

import asyncio
import os
import socket
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from waterclock.api.application import Application
from waterclock.api.queries import fleet
from waterclock.core.domain.system_load import SystemLoad, system_load
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, LogError
from waterclock.core.jetstream.fleet import QueueDepth, oldest_waiting, queue_depths
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.answers import Executor
from waterclock.proto.codec import encode
from waterclock.proto.heartbeats import SchedulerHeartbeat, read_heartbeat

_TIMEOUT = 1.0
_SPEAKER = names.member_key("api", "fleet-gauges")
"""Under the name of an api that nobody is: who may write heartbeats of apis may write it."""
_SPEAKS_FOR = 45.0
"""Without being read again: three times the usual interval."""
_QUEUE = ("queue", "handler", "tier", "priority")


async def fleet_gauges(app: Application) -> list[Metric]:
    """As it is now; nothing if another api speaks for the fleet, or while the log is away."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            if not await speaks_for_fleet(app.control, app.instance):
                return []
            schedulers = await fleet.schedulers(app.control)
            depths = await queue_depths(app.connection, schedulers, await fleet.heartbeats(app.control))
            return [
                *await _queues(app.connection, depths),
                *_executors(await fleet.executors(app.control)),
                *_partitions(schedulers, app.settings.partitions),
                *_load(system_load(schedulers, now_us())),
            ]
    except (LogError, TimeoutError):
        return []


class Speaker(Struct, frozen=True, kw_only=True):
    speaks: str
    """The instance of the api. No heartbeat has a field of this name: it is not taken for one."""
    place: str
    pid: int

    @property
    def has_died_here(self) -> bool:
        """It ran where we do, and runs no more: an api that was killed is followed by its successor at once."""
        return self.place == _place() and (self.pid == os.getpid() or not Path(f"/proc/{self.pid}").exists())


async def speaks_for_fleet(control: Bucket, instance: str) -> bool:
    """Whether this api is the one that does; if so it goes on, and if nobody does, it begins."""
    me = encode(Speaker(speaks=instance, place=_place(), pid=os.getpid()))
    try:
        known = await control.get(_SPEAKER)
        speaker = None if known is None else read_heartbeat(known.value, Speaker)
        if known is None:
            await control.create(_SPEAKER, me, ttl=_SPEAKS_FOR)
        elif speaker is None or speaker.speaks == instance or speaker.has_died_here:
            await control.update(_SPEAKER, me, known.revision, ttl=_SPEAKS_FOR)
        else:
            return False
    except Conflict:  # another one was quicker, or another reader of this one
        return (latest := await control.get(_SPEAKER)) is not None and latest.value == me
    return True


async def fall_silent(control: Bucket, instance: str) -> None:
    """An api that leaves lets another one speak at once."""
    known = await control.get(_SPEAKER)
    speaker = None if known is None else read_heartbeat(known.value, Speaker)
    if known is not None and speaker is not None and speaker.speaks == instance:
        await control.release(_SPEAKER, revision=known.revision)


def _place() -> str:
    """Where a process id means the same process."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}"


async def _queues(connection: Connection, depths: list[QueueDepth]) -> list[Metric]:
    waiting = GaugeMetricFamily("waterclock_queue_waiting", "Attempts that wait to be taken.", labels=_QUEUE)
    running = GaugeMetricFamily("waterclock_queue_running", "Attempts taken and not finished.", labels=_QUEUE)
    due = GaugeMetricFamily("waterclock_queue_due", "Runs that are due and have no room yet.", labels=_QUEUE)
    unserved = GaugeMetricFamily(
        "waterclock_queue_unserved",
        "Of what waits or is due, what no executor could take: nobody serves the queue, the tier or the handler.",
        labels=_QUEUE,
    )
    age = GaugeMetricFamily(
        "waterclock_queue_age_seconds",
        "How long the oldest attempt of a queue has waited to be taken; 0 for an empty one.",
        labels=_QUEUE,
    )
    for depth in depths:
        labels = (depth.queue, depth.handler or "", depth.tier, str(depth.priority))
        waiting.add_metric(labels, depth.waiting)
        running.add_metric(labels, depth.running)
        due.add_metric(labels, depth.due)
        unserved.add_metric(labels, depth.waiting + depth.due if depth.is_stuck else 0)
        since = await oldest_waiting(connection, depth)
        waited = 0.0 if since is None else (datetime.now(UTC) - since).total_seconds()
        age.add_metric(labels, max(0.0, waited))
    return [waiting, running, due, unserved, age]


def _executors(found: list[Executor]) -> list[Metric]:
    executors = GaugeMetricFamily("waterclock_executors", "Executors, by state.", labels=("state",))
    for state in ("ACTIVE", "DRAINING"):
        executors.add_metric((state,), sum(executor.status == state for executor in found))
    slots = GaugeMetricFamily("waterclock_executors_slots", "Slots of executors.", labels=("state",))
    slots.add_metric(("total",), sum(executor.slots for executor in found))
    slots.add_metric(("busy",), sum(executor.busy for executor in found))
    return [slots, executors]


def _partitions(schedulers: list[SchedulerHeartbeat], count: int) -> list[Metric]:
    owned = GaugeMetricFamily(
        "waterclock_partitions_owned", "Partitions that a scheduler owns.", labels=("owner",)
    )
    lag = GaugeMetricFamily(
        "waterclock_partition_lag_seconds", "How far the owner is behind.", labels=("partition",)
    )
    partitions = fleet.owned_partitions(schedulers, count)
    for owner, held in Counter(partition.owner or "" for partition in partitions).items():
        owned.add_metric((owner,), held)
    for partition in partitions:
        if partition.lag_seconds is not None:
            lag.add_metric((str(partition.partition),), partition.lag_seconds)
    return [owned, lag]


def _load(load: SystemLoad) -> list[Metric]:
    found = (
        ("waterclock_drain_seconds", "How long it takes to be on time again.", load.drain_seconds()),
        ("waterclock_behind_seconds", "Age of the oldest fire due and not decided.", load.behind_seconds),
        ("waterclock_saturated", "1 while callers are slowed down.", float(load.saturated)),
    )
    return [GaugeMetricFamily(name, about, value=value) for name, about, value in found]
