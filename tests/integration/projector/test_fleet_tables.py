"""Who executes and how much waits, as the tables show it."""

import asyncpg
import msgspec

from projector_rig.builders import EXECUTOR, created, queued, started, succeeded
from projector_rig.log import Log
from projector_rig.service import AWAY, running_projector
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import ensure_work_consumers
from waterclock.core.runtime.clock import now_us
from waterclock.proto.heartbeats import ExecutorHeartbeat, SchedulerHeartbeat
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


async def test_what_nobody_serves_is_counted_and_says_what_is_missing(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    """A queue that no executor has asked for has no consumer: of its work the schedulers tell."""
    control = Bucket(log.connection, Publisher(log.connection), CONTROL)
    now = now_us()
    scheduler = SchedulerHeartbeat(
        instance="scheduler-a",
        host="h",
        pid=1,
        started_at=now,
        at=now,
        state="running",
        partitions=[],
        due={"gpu_light_0": 7},
        unserved={"gpu_light_0": 2, "default_light_0": 99},
    )
    await control.put(member_key("scheduler", "scheduler-a"), msgspec.json.encode(scheduler))
    executor = ExecutorHeartbeat(instance="executor-a", queues=["default"], tier="light", at=now - 5_000_000)
    await control.put(member_key("executor", "executor-a"), msgspec.json.encode(executor))
    await ensure_work_consumers(log.connection, [("default", "light", "0"), ("default", "heavy", "0")])
    await log.raw(work_subject("gpu", "light", "0", "r1@x", 1), b"{}")
    await log.raw(work_subject("default", "heavy", "0", "r2@x", 1), b"{}")

    async def counted() -> bool:
        """the queue that nobody serves is there"""
        return bool(await database.fetchval("SELECT count(*) FROM waterclock.queues WHERE queue = 'gpu'"))

    async with running_projector(nats_url, database_url):
        await eventually(counted, through=AWAY)
        rows = await database.fetch("SELECT * FROM waterclock.queues WHERE waiting + due > 0 ORDER BY queue")
        heavy, gpu = rows
        assert (gpu["waiting"], gpu["due"], gpu["oldest_time"] is not None) == (2, 7, True)
        assert gpu["missing"] == "no executor serves queue gpu"
        assert (heavy["queue"], heavy["tier"], heavy["waiting"]) == ("default", "heavy", 1)
        assert heavy["missing"] == "no executor of queue default takes tier heavy"
        seen = await database.fetchval("SELECT seen_at FROM waterclock.executors")
        assert round(seen.timestamp() * 1_000_000) == executor.at, (
            "when it was heard of, and not when we looked"
        )


async def test_a_run_lives_as_long_as_its_executor_is_heard_of(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    control = Bucket(log.connection, Publisher(log.connection), CONTROL)
    began = now_us() - 3_600_000_000
    long, lost = queued("long", began), queued("lost", began)
    await log.jobs(created("long", at=began))
    await log.jobs(created("lost", at=began))
    await log.runs(long, started(long), lost, started(lost, executor_id="executor-gone"))

    async def beat(at: int) -> None:
        value = ExecutorHeartbeat(instance=EXECUTOR, at=at)
        await control.put(member_key("executor", EXECUTOR), msgspec.json.encode(value))

    async def modified() -> dict[str, int]:
        rows = await database.fetch("SELECT job_id, modified_time FROM waterclock.job_runs")
        return {row["job_id"]: round(row["modified_time"].timestamp() * 1_000_000) for row in rows}

    async def lives(at: int) -> None:
        await beat(at)
        found = await eventually(
            modified, "the run to live", wanted=lambda times: times.get("long") == at, through=AWAY
        )
        assert found["lost"] == began + 1000 + 2000, "nobody has heard of its executor"

    async with running_projector(nats_url, database_url):
        await lives(began + 1_000_000_000)
        await lives(began + 2_000_000_000)
        end = began + 1_500_000_000
        await log.runs(succeeded(long, at=end))
        await eventually(modified, "the end to count", wanted=lambda times: times["long"] == end)
