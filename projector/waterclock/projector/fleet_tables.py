"""Copies the executors' heartbeats and the depths of the work queues into tables, to be queried beside the runs."""

from collections import Counter
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.readmodel.rows import json_value
from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.heartbeats import read_heartbeats
from waterclock.core.jetstream.messages import next_message
from waterclock.core.jetstream.work_queue import runs_in
from waterclock.projector.write.database import statement
from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.heartbeats import ExecutorHeartbeat, SchedulerHeartbeat, read_heartbeat

_OLDEST_ASKED = 50
"""Queues whose oldest message is looked up in a round; the deepest ones."""


class QueueDepth(Struct, frozen=True, kw_only=True):
    queue: str
    handler: str
    tier: str
    priority: int
    waiting: int
    running: int
    redelivered: int
    pulls: int
    after: int
    """Sequence of the last message handed out."""
    subject: str


class FleetTables:
    def __init__(self, log: Connection, control: Bucket, database: asyncpg.Connection) -> None:
        self._log = log
        self._control = control
        self._database = database

    async def refresh(self, now: Instant) -> None:
        await self._write_executors(await self._control.scan(names.member_key("executor", "*")), now)
        await self._write_queues(await self._read_depths())

    async def _write_executors(self, entries: list[Entry], now: Instant) -> None:
        rows = [executor_row(entry, now) for entry in entries]
        async with self._database.transaction():
            await self._database.executemany(statement("upsert_executors"), rows)
            await self._database.execute(statement("mark_gone_executors"), [row[0] for row in rows])
            await self._database.execute(statement("delete_executors"))

    async def _read_depths(self) -> list[QueueDepth]:
        depths: list[QueueDepth] = []
        packed: Counter[str] = Counter()
        for beat in await read_heartbeats(self._control, "scheduler", SchedulerHeartbeat):
            packed.update(beat.packed)
        offset, total = 0, 1
        while offset < total:
            page = await self._log.api(f"CONSUMER.LIST.{names.WORK}", {"offset": offset})
            consumers = page.get("consumers") or []
            offset, total = offset + max(len(consumers), 1), page["total"]
            found = [depth_of(consumer, packed[consumer["name"]]) for consumer in consumers]
            depths += [depth for depth in found if depth is not None]
        return depths

    async def _write_queues(self, depths: list[QueueDepth]) -> None:
        oldest: dict[str, Instant] = {}
        deepest = sorted(depths, key=lambda depth: depth.waiting, reverse=True)
        for depth in deepest[:_OLDEST_ASKED]:
            if depth.waiting:
                stored = await next_message(self._log, names.WORK, depth.subject, depth.after)
                if stored is not None:
                    oldest[depth.subject] = instant_of(stored.timestamp)
        queues: dict[tuple[str, str, str, int], list[QueueDepth]] = {}
        for depth in depths:  # of the first releases there may be a second one of the same priority
            queues.setdefault((depth.queue, depth.handler, depth.tier, depth.priority), []).append(depth)
        rows = [
            (
                *key,
                int(names.line_of(key[3], exact=False)),
                sum(depth.waiting for depth in same),
                sum(depth.running for depth in same),
                sum(depth.redelivered for depth in same),
                sum(depth.pulls for depth in same),
                min((oldest[depth.subject] for depth in same if depth.subject in oldest), default=None),
            )
            for key, same in queues.items()
        ]
        columns = list(zip(*rows, strict=True)) or [()] * 10
        async with self._database.transaction():
            await self._database.execute(statement("upsert_queues"), *columns)
            await self._database.execute(statement("delete_queues"), *columns[:4])


def executor_row(entry: Entry, now: Instant) -> tuple[Any, ...]:
    fields: Any = {}
    beat = read_heartbeat(entry.value, ExecutorHeartbeat)
    if beat is None:
        beat = ExecutorHeartbeat()
    else:
        fields = msgspec.to_builtins(beat)
    heaviest = names.TIERS.index(beat.tier) if beat.tier in names.TIERS else len(names.TIERS) - 1
    return (
        entry.key.rpartition(".")[2],
        "ACTIVE" if beat.state == "running" else "DRAINING",
        beat.host or None,
        beat.pid or None,
        beat.queues,
        list(names.TIERS[: heaviest + 1]),
        beat.handlers,
        beat.slots,
        beat.used,
        beat.started_at or None,
        now,
        json_value(fields),
    )


def depth_of(consumer: dict[str, Any], packed: int = 0) -> QueueDepth | None:
    """None for a consumer that is not a work queue of ours. `packed`: how many more runs than messages it has."""
    subject = consumer["config"].get("filter_subject", "")
    parts = subject.removeprefix("wc.work.").removesuffix(".>").rsplit(".", 2)
    if len(parts) != 3 or not names.is_line(parts[2]):
        return None
    route, tier, line = parts
    queue, _, handler = route.partition("=")
    waiting, running = runs_in(consumer["num_pending"], consumer["num_ack_pending"], packed)
    return QueueDepth(
        queue=queue,
        handler=handler,
        tier=tier,
        priority=names.priority_of(line),
        waiting=waiting,
        running=running,
        redelivered=consumer["num_redelivered"],
        pulls=consumer["num_waiting"],
        after=consumer["delivered"]["stream_seq"],
        subject=subject,
    )
