"""Executors, queues and partitions as they are now: from the heartbeats in the control bucket, and from the consumers
of the work queue."""

from collections.abc import Collection, Iterable

from msgspec import structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.registry import handles
from waterclock.core.domain.ids import namespace_of
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.fleet import queue_depths, read_heartbeats
from waterclock.proto import methods
from waterclock.proto.answers import Executor, Page, Partition, Queue
from waterclock.proto.events import Instant
from waterclock.proto.heartbeats import ExecutorHeartbeat, PartitionStatus, SchedulerHeartbeat
from waterclock.proto.queries import Nothing


@handles(methods.EXECUTORS_LIST)
async def list_executors(app: Application, request: Nothing, caller: Caller) -> Page[Executor]:
    """Runs of other namespaces are left out of what they have in hand."""
    return Page(
        items=[
            structs.replace(
                executor, running=[r for r in executor.running if namespace_of(r) == caller.namespace]
            )
            for executor in await executors(app.control)
        ]
    )


@handles(methods.QUEUES_LIST)
async def list_queues(app: Application, request: Nothing, caller: Caller) -> Page[Queue]:
    return Page(
        items=await queues(app.connection, await schedulers(app.control), await heartbeats(app.control))
    )


@handles(methods.PARTITIONS_LIST)
async def list_partitions(app: Application, request: Nothing, caller: Caller) -> Page[Partition]:
    return Page(items=await partitions(app.control, app.settings.partitions))


async def heartbeats(control: Bucket) -> list[ExecutorHeartbeat]:
    """Of the executors."""
    return await read_heartbeats(control, "executor", ExecutorHeartbeat)


async def executors(control: Bucket) -> list[Executor]:
    beats = await heartbeats(control)
    return [
        Executor(
            executor_id=beat.instance,
            status="ACTIVE" if beat.state == "running" else "DRAINING",
            host=beat.host,
            pid=beat.pid,
            tier=beat.tier,
            queues=beat.queues,
            handlers=beat.handlers,
            slots=beat.slots,
            busy=beat.used,
            running=beat.running,
            started_at=datetime_of(beat.started_at),
            seen_at=datetime_of(beat.at),
            protections=beat.protections,
        )
        for beat in sorted(beats, key=lambda beat: beat.instance)
    ]


async def schedulers(control: Bucket) -> list[SchedulerHeartbeat]:
    return await read_heartbeats(control, "scheduler", SchedulerHeartbeat)


async def partitions(control: Bucket, count: int) -> list[Partition]:
    return owned_partitions(await schedulers(control), count)


def owned_partitions(heartbeats: Iterable[SchedulerHeartbeat], count: int) -> list[Partition]:
    """Every partition, owned or not."""
    found = [Partition(partition=number, owner=None) for number in range(count)]
    for number, (beat, held) in owners(heartbeats, count).items():
        found[number] = Partition(
            partition=number,
            owner=beat.instance,
            host=beat.host,
            lease=held.token,
            cursor=datetime_of(decided_until(held, beat.at)),
            lag_seconds=held.lag_seconds,
            active_runs=held.active_runs,
            armed=held.armed,
            backlog=held.backlog,
            unread=held.unread,
        )
    return found


def owners(
    heartbeats: Iterable[SchedulerHeartbeat], count: int
) -> dict[int, tuple[SchedulerHeartbeat, PartitionStatus]]:
    """Who says that it owns which partition. While one moves two may claim it; the higher token is the owner's."""
    found: dict[int, tuple[SchedulerHeartbeat, PartitionStatus]] = {}
    for beat in heartbeats:
        for held in beat.partitions:
            known = found[held.partition][1].token if held.partition in found else 0
            if 0 <= held.partition < count and held.token > known:
                found[held.partition] = beat, held
    return found


def decided_until(held: PartitionStatus, at: Instant) -> Instant:
    """An owner without anything to decide does not move its cursor. What waits is not decided, also where it is no lag:
    for the slots of slow work."""
    until = max(held.time_cursor, at - int(held.lag_seconds * SECOND))
    return until if held.waits_since is None else min(until, max(0, held.waits_since - 1))


async def queues(
    connection: Connection,
    schedulers: Collection[SchedulerHeartbeat],
    executors: Collection[ExecutorHeartbeat],
) -> list[Queue]:
    """Those that have work and nobody who could take it are among them."""
    depths = await queue_depths(connection, schedulers, executors)
    return [
        Queue(
            queue=depth.queue,
            handler=depth.handler,
            tier=depth.tier,
            priority=depth.priority,
            waiting=depth.waiting,
            running=depth.running,
            redelivered=depth.redelivered,
            pulls=depth.pulls,
            due=depth.due,
            missing=depth.missing,
        )
        for depth in depths
    ]
