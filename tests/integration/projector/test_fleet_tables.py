"""Who executes and how much waits, as the tables show it."""

import asyncpg
import msgspec

from projector_rig.log import Log
from projector_rig.service import AWAY, running_projector
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import ensure_work_consumers
from waterclock.proto.names import CONTROL, member_key, work_subject


async def test_executors_come_drain_and_go(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    control = Bucket(log.connection, Publisher(log.connection), CONTROL)
    key = member_key("executor", "executor-a")
    beat = {
        "instance": "executor-a",
        "host": "host1",
        "pid": 42,
        "tier": "medium",
        "queues": ["default"],
        "handlers": ["email_send"],
        "slots": 64,
        "used": 3,
        "state": "running",
        "started_at": 1_794_816_000_000_000,
    }

    async def shows(status: str) -> None:
        async def so() -> bool:
            return bool(await database.fetchval("SELECT status FROM waterclock.executors") == status)

        so.__doc__ = f"the executor is {status}"
        await eventually(so, through=AWAY)

    async with running_projector(nats_url, database_url):
        await control.put(key, msgspec.json.encode(beat))
        await control.put(member_key("executor", "executor-b"), b"nonsense")
        await control.delete(member_key("executor", "executor-b"))
        await shows("ACTIVE")
        row = await database.fetchrow("SELECT * FROM waterclock.executors")
        assert row is not None
        assert (row["executor_id"], row["host"], row["pid"]) == ("executor-a", "host1", 42)
        assert (row["slots"], row["busy"], row["handlers"]) == (64, 3, ["email_send"])
        assert row["tiers"] == ["light", "medium"]
        await control.put(key, msgspec.json.encode({**beat, "state": "draining"}))
        await shows("DRAINING")
        await control.delete(key)
        await shows("GONE")


async def test_queues_show_what_waits(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    handler = "default=email_send"
    lines = [("default", "light", "0"), (handler, "light", "0")]
    lines += [("default", "light", line) for line in ("p49", "p50", "3")]  # the last as in the first releases
    await ensure_work_consumers(log.connection, lines)
    for number in range(3):
        await log.raw(work_subject(handler, "light", "0", f"r{number}@x", 1), b"{}")
    for line in ("p49", "p50", "3"):
        await log.raw(work_subject("default", "light", line, f"{line}@x", 1), b"{}")

    async def counted() -> bool:
        """three wait for the handler"""
        row = await database.fetchrow(
            "SELECT waiting, running, pulls, oldest_time IS NOT NULL FROM waterclock.queues "
            "WHERE (queue, handler, tier, band) = ('default', 'email_send', 'light', 0)"
        )
        return row is not None and tuple(row) == (3, 0, 0, True)

    async with running_projector(nats_url, database_url):
        await eventually(counted, through=AWAY)
        rows = await database.fetch(
            "SELECT priority, band, waiting FROM waterclock.queues WHERE handler = '' ORDER BY priority"
        )
        assert [tuple(row) for row in rows] == [(0, 0, 0), (49, 2, 1), (50, 3, 2)]
        await log.connection.api("CONSUMER.DELETE.WORK.default_light_0")

        async def gone() -> bool:
            """the queue that was removed is gone"""
            return bool(await database.fetchval("SELECT count(*) FROM waterclock.queues") == 3)

        await eventually(gone, through=AWAY)
