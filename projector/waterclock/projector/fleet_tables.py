"""Copies the executors' heartbeats and the depths of the work queues into tables, to be queried beside the runs."""

from typing import Any

import asyncpg
import msgspec

from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.readmodel.rows import json_value
from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.fleet import QueueDepth, oldest_waiting, queue_depths, read_heartbeats
from waterclock.projector.write.database import statement
from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.heartbeats import ExecutorHeartbeat, SchedulerHeartbeat, read_heartbeat

_OLDEST_ASKED = 50
"""Queues whose oldest message is looked up in a round; the deepest ones."""


class FleetTables:
    def __init__(self, log: Connection, control: Bucket, database: asyncpg.Connection) -> None:
        self._log = log
        self._control = control
        self._database = database

    async def refresh(self, now: Instant) -> None:
        entries = await self._control.scan(names.member_key("executor", "*"))
        await self._write_executors([executor_row(entry, now) for entry in entries])
        beats = (read_heartbeat(entry.value, ExecutorHeartbeat) for entry in entries)
        executors = [beat for beat in beats if beat is not None]
        schedulers = await read_heartbeats(self._control, "scheduler", SchedulerHeartbeat)
        await self._write_queues(await queue_depths(self._log, schedulers, executors))

    async def _write_executors(self, rows: list[tuple[Any, ...]]) -> None:
        async with self._database.transaction():
            await self._database.executemany(statement("upsert_executors"), rows)
            await self._database.execute(statement("mark_gone_executors"), [row[0] for row in rows])
            await self._database.execute(statement("delete_executors"))

    async def _write_queues(self, depths: list[QueueDepth]) -> None:
        deepest = sorted(depths, key=lambda depth: depth.waiting, reverse=True)[:_OLDEST_ASKED]
        oldest = {depth.lines: await oldest_waiting(self._log, depth) for depth in deepest}
        rows = [
            (
                depth.queue,
                depth.handler or "",
                depth.tier,
                depth.priority,
                int(names.line_of(depth.priority, exact=False)),
                depth.waiting,
                depth.running,
                depth.redelivered,
                depth.pulls,
                None if (since := oldest.get(depth.lines)) is None else instant_of(since),
                depth.due,
                depth.missing,
            )
            for depth in depths
        ]
        columns = list(zip(*rows, strict=True)) or [()] * 12
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
        beat.at or now,
        json_value(fields),
    )
