"""The tables and views themselves: documented, readable by those who may, right about defaults."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg
import msgspec
import pytest

from projector_rig.builders import created, spec
from projector_rig.log import Log
from projector_rig.service import caught_up, running_projector
from waterclock.core.domain.readmodel.rows import AttemptRow, DefinitionRow, JobRow, RunRow, dead_letter_row
from waterclock.core.runtime.clock import now_us
from waterclock.projector.sql.migrator import SchemaTooNew, migrate, migrations
from waterclock.projector.write.database import connect
from waterclock.projector.write.week_partitions import WeekPartitions
from waterclock.proto.policies import CatchUp, Retry
from waterclock.proto.spec import JobSpec, Schedule, Shell

CONTRACT = {
    "jobs": """job_id name schedule_type status schedule_time cron_expression interval_seconds timezone start_at end_at
        jitter_seconds max_fires dst_gap dst_overlap overlap catch_up task payload labels metadata dependencies
        priority tier queue max_retries retry timeout_seconds delivery critical retention idempotency_key version
        next_run_at last_run created_at updated_at""",
    "job_runs": """run_id job_id workflow_run_id epoch status reason attempt_number crash_count scheduled_time due_time
        queued_time start_time end_time modified_time executor_id exit_code error_message output log_url
        fencing_token created_at""",
    "job_attempts": """run_id attempt_number executor_id status reason start_time end_time exit_code error_message
        log_url cpu_seconds memory_bytes""",
    "workflows": "workflow_id name nodes version",
    "workflow_runs": "workflow_run_id workflow_id epoch status",
    "workflow_nodes": "workflow_run_id id status run_id attempt_number output reason map",
    "executors": "executor_id",
    "queues": "queue tier",
    "dead_letters": "run_id job_id reason",
    "projection_state": "stream partition position",
    "job_health": "job_id",
    "lag_by_minute": "minute",
    "failures_by_job": "job_id",
    "upcoming": "job_id next_run_at",
}


async def columns(database: asyncpg.Connection, table: str) -> list[str]:
    rows = await database.fetch(
        """SELECT column_name FROM information_schema.columns
            WHERE table_schema = 'waterclock' AND table_name = $1 ORDER BY ordinal_position""",
        table,
    )
    return [row["column_name"] for row in rows]


@pytest.mark.parametrize("table", CONTRACT)
async def test_every_table_has_the_columns_of_the_contract(database: asyncpg.Connection, table: str) -> None:
    assert not set(CONTRACT[table].split()) - set(await columns(database, table))


async def test_every_table_and_column_has_a_comment(database: asyncpg.Connection, database_url: str) -> None:
    """Also of the tables that others are made of: `\\d+` shows those beside the rest."""
    projector = await connect(database_url, name="test")
    await WeekPartitions(projector).ensure_ahead(now_us())
    await projector.close()
    bare = await database.fetch(
        """SELECT c.relname, a.attname
             FROM pg_class c
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relnamespace = 'waterclock'::regnamespace AND c.relkind IN ('r', 'p', 'v')
              AND (obj_description(c.oid, 'pg_class') IS NULL OR col_description(c.oid, a.attnum) IS NULL)"""
    )
    assert [tuple(row) for row in bare] == []


async def test_rows_are_built_in_the_order_of_the_columns(database: asyncpg.Connection) -> None:
    """They are copied without naming columns."""
    assert await columns(database, "run_state") == list(RunRow.__struct_fields__)
    assert await columns(database, "job_runs") == list(RunRow.__struct_fields__)
    assert await columns(database, "earlier_attempts") == list(AttemptRow.__struct_fields__)
    event = created(name="n", payload=1, labels={"a": "b"})
    job = JobRow(
        job_id="j",
        namespace="ns",
        name="n",
        standing="PAUSED",
        status="COMPLETED",
        version=1,
        armed_version=2,
        effective_from=3,
        next_run_at=4,
        last_fire_at=5,
        fire_sequence=6,
        ended_version=7,
        ended_time=8,
        ended_sequence=9,
        created_at=10,
        skipped=(11,),
        schedule=Schedule(),
    )
    built = dict(zip(await columns(database, "job_state"), job.state_row(), strict=True))
    assert built == {name: getattr(job, name) for name in built}
    row = dict(zip(await columns(database, "job_definitions"), DefinitionRow(job, event).row(), strict=True))
    assert (row["standing"], row["armed_version"], row["updated_at"], row["payload"]) == (
        "PAUSED",
        2,
        event.at,
        b"1",
    )
    run = RunRow(
        run_id="r",
        job_id="j",
        namespace="ns",
        status="FAILED",
        trigger="now",
        scheduled_time=1,
        due_time=2,
        modified_time=3,
        first_sequence=4,
        last_sequence=5,
        created_at=6,
    )
    letter = dict(zip(await columns(database, "dead_letters"), dead_letter_row(run), strict=True))
    shared = set(letter) & set(RunRow.__struct_fields__)
    assert {name: letter[name] for name in shared} == {name: getattr(run, name) for name in shared}


async def test_the_reader_may_read_and_nothing_else(database: asyncpg.Connection) -> None:
    await database.execute("SET ROLE waterclock_reader")
    for table in CONTRACT:
        await database.fetch(f"SELECT * FROM waterclock.{table}")
    for statement in (
        "DELETE FROM waterclock.job_runs",
        "UPDATE waterclock.projection_state SET position = 0",
        "CREATE TABLE waterclock.mine (id int)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await database.execute(statement)


async def test_migrations_run_once_also_when_projectors_start_together(database_url: str) -> None:
    connections = [await asyncpg.connect(database_url) for _ in range(3)]
    done = await asyncio.gather(*(migrate(connection, "waterclock") for connection in connections))
    assert sorted(done) == [0, 0, len(migrations())]
    for connection in connections:
        await connection.close()


async def test_a_schema_of_a_later_version_is_left_alone(database: asyncpg.Connection) -> None:
    await database.execute("INSERT INTO waterclock.migrations VALUES (9999, 'later', '', now())")
    with pytest.raises(SchemaTooNew, match="9999"):
        await migrate(database, "waterclock")


async def one_job(log: Log, nats_url: str, database_url: str, definition: JobSpec) -> dict[str, Any]:
    await log.jobs(msgspec.structs.replace(created("job"), spec=definition))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    connection = await asyncpg.connect(database_url)
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=str, decoder=msgspec.json.decode)
    row = await connection.fetchrow("SELECT * FROM waterclock.jobs")
    await connection.close()
    assert row is not None
    return dict(row)


async def test_a_field_that_was_not_said_shows_its_default(
    log: Log, nats_url: str, database_url: str
) -> None:
    definition = spec()
    job = await one_job(log, nats_url, database_url, definition)
    for name in (
        "namespace",
        "overlap",
        "priority",
        "tier",
        "queue",
        "max_retries",
        "timeout_seconds",
        "delivery",
    ):
        assert job[name] == getattr(definition, name), name
    for name in ("critical", "retention", "idempotency_key", "payload", "labels", "metadata"):
        assert job[name] == getattr(definition, name), name
    schedule = definition.schedule
    for name in ("schedule_type", "schedule_time", "interval_seconds", "timezone", "start_at", "end_at"):
        assert job[name] == getattr(schedule, name), name
    for name in ("jitter_seconds", "max_fires", "dst_gap", "dst_overlap"):
        assert job[name] == getattr(schedule, name), name
    assert job["cron_expression"] is None
    assert job["dependencies"] == []
    assert job["catch_up"] == msgspec.to_builtins(CatchUp())
    retry = Retry()
    assert job["retry"] == {
        name: getattr(retry, name) for name in ("initial_seconds", "factor", "max_seconds", "jitter")
    }
    assert job["task"] == {"kind": "shell", "command": "true"}
    assert job["last_run"] is None


async def test_a_field_that_was_said_shows_as_said(log: Log, nats_url: str, database_url: str) -> None:
    when = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    definition = JobSpec(
        name="nightly",
        namespace="research",
        task=Shell(command="backup", env={"A": "b"}),
        schedule=Schedule(
            schedule_type="CRON",
            cron_expression=("0 3 * * *", "0 4 * * SUN"),
            timezone="Europe/Paris",
            start_at=when,
            jitter_seconds=1.5,
            max_fires=7,
            dst_gap="skip",
            dst_overlap="both",
        ),
        payload={"deep": [1, {"a": None}]},
        labels={"team": "data"},
        metadata={"owner": "x"},
        dependencies=("a", "b"),
        priority=5,
        tier="heavy",
        queue="slow",
        overlap="queue_one",
        catch_up=CatchUp(policy="all", window_seconds=60),
        max_retries=2,
        retry=Retry(initial_seconds=9),
        timeout_seconds=30,
        delivery="exactly_once",
        critical=True,
        idempotency_key="k",
    )
    job = await one_job(log, nats_url, database_url, definition)
    assert job["cron_expression"] == ["0 3 * * *", "0 4 * * SUN"]
    assert (job["start_at"], job["jitter_seconds"], job["max_fires"]) == (when, 1.5, 7)
    assert (job["dst_gap"], job["dst_overlap"], job["timezone"]) == ("skip", "both", "Europe/Paris")
    assert (job["payload"], job["labels"], job["metadata"]) == (
        {"deep": [1, {"a": None}]},
        {"team": "data"},
        {"owner": "x"},
    )
    assert (job["dependencies"], job["priority"], job["tier"], job["queue"]) == (
        ["a", "b"],
        5,
        "heavy",
        "slow",
    )
    assert (job["overlap"], job["catch_up"]["policy"], job["retry"]["initial_seconds"]) == (
        "queue_one",
        "all",
        9,
    )
    assert (job["timeout_seconds"], job["delivery"], job["critical"]) == (30, "exactly_once", True)
    assert msgspec.convert(job["spec"], JobSpec) == definition


async def test_what_nobody_compares_is_not_analyzed_in_any_week(
    database: asyncpg.Connection, database_url: str
) -> None:
    projector = await connect(database_url, name="test")
    await WeekPartitions(projector).ensure_ahead(now_us())
    await projector.close()
    rows = await database.fetch(
        """SELECT c.relname, array_agg(a.attname ORDER BY a.attname) AS columns
             FROM pg_class c
             LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attstattarget = 0
            WHERE c.relname ~ '^run_state_(default|[0-9]+)$'
            GROUP BY c.relname"""
    )
    assert len(rows) > 2
    assert {tuple(row["columns"]) for row in rows} == {("error_message", "log_url", "output", "parameters")}


async def test_the_documented_questions_find_their_indexes(database: asyncpg.Connection) -> None:
    """Tables are empty here, so the planner is only told not to scan them whole."""
    await database.execute("SET enable_seqscan = off")
    for question, index in {
        "SELECT * FROM waterclock.job_runs WHERE run_id = 'x'": "run_state_default_pkey",
        "SELECT * FROM waterclock.job_runs WHERE job_id = 'x' ORDER BY created_at DESC": "job_id_created_at",
        "SELECT * FROM waterclock.job_runs WHERE status = 'RUNNING'": "status_due_time",
        "SELECT * FROM waterclock.job_runs WHERE status IN ('FAILED', 'TIMED_OUT') AND end_time > now()": "end_time",
        "SELECT * FROM waterclock.jobs WHERE namespace = 'd' AND status = 'PAUSED'": "job_state_status",
        "SELECT * FROM waterclock.workflows": "job_definitions_workflows",
        "SELECT * FROM waterclock.job_runs WHERE namespace = 'd' ORDER BY scheduled_time": "scheduled_time_idx",
        'SELECT * FROM waterclock.jobs WHERE labels @> \'{"a": "b"}\'': "job_definitions_labels",
        "SELECT * FROM waterclock.upcoming ORDER BY next_run_at LIMIT 10": "job_state_next",
        "SELECT * FROM waterclock.workflow_nodes WHERE workflow_run_id = 'x'": "run_state_default_pkey",
    }.items():
        plan = "\n".join(row[0] for row in await database.fetch(f"EXPLAIN {question}"))
        assert index in plan, f"{question}\n{plan}"


async def test_an_instant_survives_the_way_into_a_row(
    database: asyncpg.Connection, database_url: str
) -> None:
    connection = await connect(database_url, name="test")
    for instant in (0, 1, -1, 1_794_816_000_000_001):
        assert await connection.fetchval("SELECT $1::timestamptz", instant) == instant
    shown = await database.fetchval("SELECT '2026-11-16T08:00:00.000001Z'::timestamptz")
    stored = await connection.fetchval("SELECT '2026-11-16T08:00:00.000001Z'::timestamptz")
    assert shown.timestamp() * 1e6 == pytest.approx(stored, abs=1)
    await connection.close()
