"""Who is there, by what the components say of themselves in the control bucket; and how much waits and runs in every
work queue, also in those that nobody serves.

The broker counts what its consumers have. A queue that no executor has ever asked for has no consumer, so of its work
the schedulers tell, who put it there; as they do of what is due and has no room in any queue.
"""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct, structs

from waterclock.core.domain.unserved_work import missing_executor
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import next_message
from waterclock.core.jetstream.work_queue import runs_in
from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat, SchedulerHeartbeat, read_heartbeat

H = TypeVar("H", bound=Struct)

_NO_CONSUMER = dict.fromkeys(("num_ack_pending", "num_redelivered", "num_waiting"), 0)


async def read_heartbeats(control: Bucket, component: str, kind: type[H]) -> list[H]:
    """Of all living instances of a component, those that can be read."""
    found = await control.scan(names.member_key(component, "*"))
    return [beat for entry in found if (beat := read_heartbeat(entry.value, kind)) is not None]


class QueueDepth(Struct, frozen=True, kw_only=True):
    queue: str
    handler: str | None
    tier: str
    priority: int
    waiting: int
    running: int
    redelivered: int
    pulls: int
    due: int
    """What is due and has no room in the queue."""
    missing: str | None
    """What nobody has that could take its work."""
    lines: tuple[tuple[str, int], ...]
    """The subjects it waits on, each with the sequence of the last message handed out. Mostly one: where there is work
    of the first releases, that has a line of its own."""

    @property
    def is_stuck(self) -> bool:
        """There is work, and nobody who could take it."""
        return self.missing is not None and self.waiting + self.due > 0


async def queue_depths(
    connection: Connection,
    schedulers: Collection[SchedulerHeartbeat],
    executors: Collection[ExecutorHeartbeat],
) -> list[QueueDepth]:
    due: Counter[str] = Counter()
    packed: Counter[str] = Counter()
    unserved: Counter[str] = Counter()
    for beat in schedulers:
        due.update(beat.due)
        packed.update(beat.packed)
        unserved.update(beat.unserved)
    consumers = await _consumers(connection)
    known = {consumer["name"] for consumer in consumers}
    for name in (due.keys() | unserved.keys()) - known:
        consumers.append(_NO_CONSUMER | {"name": name, "num_pending": unserved[name]})
    found: dict[tuple[str, str, int, int], QueueDepth] = {}
    for consumer in consumers:
        depth = _depth(consumer, due, packed, executors)
        if depth is not None:
            key = depth.queue, depth.handler or "", names.TIERS.index(depth.tier), depth.priority
            found[key] = _sum(found[key], depth) if key in found else depth
    return [found[key] for key in sorted(found)]


async def oldest_waiting(connection: Connection, depth: QueueDepth) -> datetime | None:
    """When the work that waits the longest in a queue was put there."""
    if not depth.waiting:
        return None
    found = [await next_message(connection, names.WORK, subject, after) for subject, after in depth.lines]
    return min((message.timestamp for message in found if message is not None), default=None)


def _sum(first: QueueDepth, second: QueueDepth) -> QueueDepth:
    counted = ("waiting", "running", "redelivered", "pulls", "due", "lines")
    return structs.replace(first, **{name: getattr(first, name) + getattr(second, name) for name in counted})


async def _consumers(connection: Connection) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        answer = await connection.api(f"CONSUMER.LIST.{names.WORK}", {"offset": len(found)})
        page = answer.get("consumers") or []
        found += page
        if not page or len(found) >= answer["total"]:
            return found


def _depth(
    consumer: dict[str, Any],
    due: Counter[str],
    packed: Counter[str],
    executors: Collection[ExecutorHeartbeat],
) -> QueueDepth | None:
    """A route is `<queue>` or `<queue>=<handler>`; None if this is no consumer of a work queue."""
    name = consumer["name"]
    parts = names.parts_of_consumer(name)
    if parts is None:
        return None
    route, tier, line = parts
    queue, equals, handler = route.partition("=")
    waiting, running = runs_in(consumer["num_pending"], consumer["num_ack_pending"], packed[name])
    return QueueDepth(
        queue=queue,
        handler=handler if equals else None,
        tier=tier,
        priority=names.priority_of(line),
        waiting=waiting,
        running=running,
        redelivered=consumer["num_redelivered"],
        pulls=consumer["num_waiting"],
        due=due[name],
        missing=missing_executor(queue, handler if equals else None, tier, executors),
        lines=((names.work_filter(route, tier, line), consumer.get("delivered", {}).get("stream_seq", 0)),),
    )
