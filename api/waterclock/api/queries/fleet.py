"""Executors, queues and partitions as they are now: from the heartbeats in the control bucket, and from the consumers
of the work queue."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.registry import handles
from waterclock.core.domain.ids import namespace_of
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import NotFound
from waterclock.core.jetstream.heartbeats import read_heartbeats
from waterclock.core.jetstream.messages import next_message
from waterclock.core.jetstream.work_queue import runs_in
from waterclock.proto import methods, names
from waterclock.proto.answers import Executor, Page, Partition, Queue
from waterclock.proto.events import Instant
from waterclock.proto.heartbeats import ExecutorHeartbeat, PartitionStatus, SchedulerHeartbeat
from waterclock.proto.queries import Nothing

_NO_CONSUMER = dict.fromkeys(("num_pending", "num_ack_pending", "num_redelivered", "num_waiting"), 0)
"""Of a queue that nobody has ever served."""


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
    return Page(items=await queues(app.connection, await schedulers(app.control)))


@handles(methods.PARTITIONS_LIST)
async def list_partitions(app: Application, request: Nothing, caller: Caller) -> Page[Partition]:
    return Page(items=await partitions(app.control, app.settings.partitions))


async def executors(control: Bucket) -> list[Executor]:
    beats = await read_heartbeats(control, "executor", ExecutorHeartbeat)
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


async def queues(connection: Connection, heartbeats: Iterable[SchedulerHeartbeat] = ()) -> list[Queue]:
    """Of what is due, and has no room in its queue, the schedulers tell; and of the runs that share a message."""
    due: Counter[str] = Counter()
    packed: Counter[str] = Counter()
    for beat in heartbeats:
        due.update(beat.due)
        packed.update(beat.packed)
    found: dict[tuple[str, str, int, int], Queue] = {}
    seen = 0
    while True:
        answer = await connection.api(f"CONSUMER.LIST.{names.WORK}", {"offset": seen})
        consumers = answer.get("consumers") or []
        for consumer in consumers:
            _add(found, consumer, due.pop(consumer["name"], 0), packed[consumer["name"]])
        seen += len(consumers)
        if not consumers or seen >= answer["total"]:
            break
    for name, count in due.items():
        _add(found, _NO_CONSUMER | {"name": name}, count)
    return [found[key] for key in sorted(found)]


async def oldest_waiting(connection: Connection, queue: Queue) -> datetime | None:
    """When the work that waits the longest in a queue was put there."""
    route = names.route_of(queue.queue, queue.handler)
    oldest: list[datetime] = []
    for line in {names.line_of(queue.priority, exact) for exact in (True, False)}:
        if names.priority_of(line) != queue.priority:
            continue
        try:
            info = await connection.api(
                f"CONSUMER.INFO.{names.WORK}.{names.work_consumer(route, queue.tier, line)}"
            )
        except NotFound:
            continue
        subject = names.work_filter(route, queue.tier, line)
        found = await next_message(connection, names.WORK, subject, info["delivered"]["stream_seq"])
        if found is not None:
            oldest.append(found.timestamp)
    return min(oldest, default=None)


def _add(
    queues: dict[tuple[str, str, int, int], Queue], consumer: dict[str, Any], due: int, packed: int = 0
) -> None:
    """Two consumers may be one queue: where there is work of the first releases, it has lines of its own."""
    queue = _queue(consumer, due, packed)
    if queue is None:
        return
    key = queue.queue, queue.handler or "", names.TIERS.index(queue.tier), queue.priority
    known = queues.get(key)
    if known is not None:
        counted = ("waiting", "running", "redelivered", "pulls", "due")
        sums = {name: getattr(known, name) + getattr(queue, name) for name in counted}
        queue = structs.replace(queue, **sums)
    queues[key] = queue


def _queue(consumer: dict[str, Any], due: int, packed: int = 0) -> Queue | None:
    """A consumer is named `<route>_<tier>_<line>`, and a route `<queue>` or `<queue>=<handler>`."""
    parts = names.parts_of_consumer(consumer["name"])
    if parts is None:
        return None
    route, tier, line = parts
    queue, equals, handler = route.partition("=")
    waiting, running = runs_in(consumer["num_pending"], consumer["num_ack_pending"], packed)
    return Queue(
        queue=queue,
        handler=handler if equals else None,
        tier=tier,
        priority=names.priority_of(line),
        waiting=waiting,
        running=running,
        redelivered=consumer["num_redelivered"],
        pulls=consumer["num_waiting"],
        due=due,
    )
