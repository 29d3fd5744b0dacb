"""What may go goes, and nothing else."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from projector_rig.builders import EVERY_MINUTE, T0, created, failed, queued, succeeded
from projector_rig.log import Log
from projector_rig.service import caught_up, running_projector
from waterclock.core.domain.instants import DAY, MINUTE
from waterclock.core.runtime.clock import now_us
from waterclock.projector.retention import Retention
from waterclock.projector.write.database import connect
from waterclock.projector.write.week_partitions import WEEK, WeekPartitions, partition_name, week_of
from waterclock.proto.events import RunEvent
from waterclock.proto.policies import Retention as Kept
from waterclock.proto.spec import Schedule


@pytest.fixture
async def writer(database: asyncpg.Connection, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection as the projector has it."""
    connection = await connect(database_url, name="test")
    yield connection
    await connection.close()


def run(job_id: str, at: int, ending: str = "succeeded") -> list[RunEvent]:
    q = queued(job_id, at)
    ends: dict[str, list[RunEvent]] = {"succeeded": [succeeded(q)], "failed": [failed(q)], "open": []}
    return [q, *ends[ending]]


async def run_ids(database: asyncpg.Connection) -> set[str]:
    return {row["run_id"] for row in await database.fetch("SELECT run_id FROM waterclock.job_runs")}


async def forget(writer: asyncpg.Connection, now: int, days: float = 30.0) -> None:
    await Retention(writer, WeekPartitions(writer), days).delete_expired(now)


async def test_old_weeks_are_dropped_whole_except_for_what_has_not_ended(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    now = now_us()
    old, older = now - 60 * DAY, now - 90 * DAY
    await log.runs(
        *run("old", old, "failed"), *run("older", older), *run("stuck", older, "open"), *run("new", now)
    )
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    assert await run_ids(database) == {
        queued(name, at).run_id
        for name, at in (("old", old), ("older", older), ("stuck", older), ("new", now))
    }
    weeks = await writer.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'run_state'::regclass")
    await forget(writer, now)
    assert await run_ids(database) == {queued("stuck", older).run_id, queued("new", now).run_id}
    assert await writer.fetchval("SELECT to_regclass($1)", partition_name("run_state", week_of(old))) is None
    assert (
        await writer.fetchval("SELECT to_regclass($1)", partition_name("run_state", week_of(older)))
        is not None
    )
    assert (
        await writer.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'run_state'::regclass")
        == weeks - 1
    )
    assert await database.fetchval("SELECT count(*) FROM waterclock.dead_letters") == 0


async def test_a_job_may_keep_less(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    now = now_us()
    await log.jobs(created("few", schedule=EVERY_MINUTE, retention=Kept(successes=2, failures=1)))
    await log.jobs(created("short", schedule=EVERY_MINUTE, retention=Kept(days=1)))
    await log.jobs(created("all", schedule=EVERY_MINUTE))
    for minute in range(5):
        at = now - 2 * DAY + minute * MINUTE
        for job in ("few", "short", "all"):
            await log.runs(*run(job, at, "failed" if minute % 2 else "succeeded"))
    await log.runs(*run("short", now), *run("short", now - 2 * DAY - MINUTE, "open"))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    await forget(writer, now)
    left = dict.fromkeys(("few", "short", "all"), 0)
    for row in await database.fetch("SELECT job_id, count(*) FROM waterclock.job_runs GROUP BY 1"):
        left[row[0]] = row[1]
    assert left == {"few": 3, "short": 2, "all": 5}
    newest = await database.fetch(
        "SELECT run_id FROM waterclock.job_runs WHERE job_id = 'few' ORDER BY created_at"
    )
    assert [row[0] for row in newest] == [queued("few", now - 2 * DAY + m * MINUTE).run_id for m in (2, 3, 4)]
    assert await database.fetchval("SELECT count(*) FROM waterclock.dead_letters WHERE job_id = 'few'") == 1


async def test_finished_jobs_go_with_their_last_run(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    now = now_us()
    old = now - 60 * DAY
    await log.jobs(created("done", at=old))
    await log.jobs(created("waits", at=old, schedule=Schedule(schedule_type="DEPENDENT")))
    await log.jobs(created("recent", at=now))
    await log.runs(*run("done", old), *run("recent", now))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    await forget(writer, now)
    assert {row[0] for row in await database.fetch("SELECT job_id FROM waterclock.jobs")} == {
        "waits",
        "recent",
    }


async def test_runs_outside_of_every_week_go_to_the_default_partition_and_move_when_theirs_is_made(
    database: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    insert = """INSERT INTO run_state (run_id, job_id, namespace, status, trigger, fires, attempt_number, crash_count,
                       scheduled_time, due_time, modified_time, first_sequence, last_sequence, created_at)
                VALUES ($1, 'j', 'default', 'SUCCESS', 'now', 1, 1, 0, $2, $2, $2, 1, 1, $2)"""
    for number, at in enumerate((T0, T0 + WEEK, 0)):
        await writer.execute(insert, f"r{number}", at)
    assert await writer.fetchval("SELECT count(*) FROM run_state_default") == 3
    weeks = WeekPartitions(writer)
    await weeks.ensure([T0, 0], now=T0)
    assert await writer.fetchval("SELECT count(*) FROM run_state_default") == 2
    assert await writer.fetchval(f"SELECT run_id FROM {partition_name('run_state', week_of(T0))}") == "r0"
    assert await writer.fetchval("SELECT count(*) FROM job_runs") == 3
    await forget(writer, T0 + 400 * DAY)
    assert await writer.fetchval("SELECT count(*) FROM job_runs") == 0


async def test_weeks_are_made_ahead(database: asyncpg.Connection, writer: asyncpg.Connection) -> None:
    await forget(writer, T0)
    for ahead in range(5):
        name = partition_name("run_state", week_of(T0) + ahead * WEEK)
        assert await writer.fetchval("SELECT to_regclass($1)", name) is not None


async def test_a_week_that_is_being_read_is_dropped_later(
    database: asyncpg.Connection, writer: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.projector.write.week_partitions._LOCK_TIMEOUT", "100ms")
    await forget(writer, T0)
    name = partition_name("run_state", week_of(T0))
    async with database.transaction():
        await database.fetch(f"SELECT * FROM waterclock.{name}")
        await forget(writer, T0 + 60 * DAY)
        assert await writer.fetchval("SELECT to_regclass($1)", name) is not None
    await forget(writer, T0 + 60 * DAY)
    assert await writer.fetchval("SELECT to_regclass($1)", name) is None
