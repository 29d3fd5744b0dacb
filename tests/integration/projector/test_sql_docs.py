"""Every query of docs/sql.md runs, for a user who may only read, and finds what it asks for."""

import re
from pathlib import Path

import asyncpg
import msgspec
import pytest

from projector_rig.builders import EVERY_MINUTE, created, failed, outcome, queued, started, succeeded
from projector_rig.log import Log
from projector_rig.service import AWAY, caught_up, running_projector
from support.waiting import eventually
from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import DAY, MINUTE, SECOND
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import ensure_work_consumers
from waterclock.core.runtime.clock import now_us
from waterclock.proto.events import JobPaused, RunOpened, RunSkipped, RunTimedOut, SkipRequested
from waterclock.proto.names import CONTROL, member_key, work_subject
from waterclock.proto.spec import Node, Shell, Workflow

DOCUMENT = Path(__file__).parents[3] / "docs" / "sql.md"
QUESTIONS = re.findall(r"^## (.+?)\n\n```sql\n(.+?)```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


async def tell_a_bit_of_everything(log: Log) -> None:
    now = now_us() // SECOND * SECOND
    nodes = (
        Node(id="a", task=Shell(command="true")),
        Node(id="b", task=Shell(command="true"), depends_on=("a",)),
    )
    await log.jobs(
        created("backup", at=now - DAY, name="nightly", schedule=EVERY_MINUTE, labels={"team": "data"})
    )
    await log.jobs(created("flow", at=now, task=Workflow(nodes=nodes)))
    paused = created("paused", at=now, schedule=EVERY_MINUTE)
    await log.jobs(paused)
    await log.jobs(JobPaused(job_id="paused", spec=paused.spec, at=now, created_at=now, note="until monday"))
    fine, bad, slow, now_running = (queued("backup", now - minutes * MINUTE) for minutes in (5, 4, 3, 2))
    again = queued("backup", fine.scheduled, attempt=2, at=fine.at + MINUTE)
    await log.runs(
        fine, failed(fine, retry_at=again.at), again, succeeded(again, cpu_seconds=1.5, memory_bytes=9)
    )
    await log.runs(
        bad, failed(bad, error_message="boom"), slow, RunTimedOut(**outcome(slow), reason="over 5 s")
    )
    await log.runs(now_running, started(now_running), queued("email", now, handler="email_send"))
    coming = now // MINUTE * MINUTE + 5 * MINUTE
    await log.runs(SkipRequested(run_id=run_id("backup", coming), at=now, scheduled=coming))
    await log.runs(
        RunSkipped(
            run_id="backup@x", at=now, version=1, scheduled=now, due=now, reason="overlap", because_of="y"
        ),
        RunOpened(
            run_id="flow@now-1",
            at=now,
            version=2,
            scheduled=now,
            due=now,
            kind="wave",
            trigger="now",
            epoch=1,
        ),
        queued(run_id="flow@now-1~a", scheduled=now, trigger="workflow", parent="flow@now-1"),
    )


@pytest.fixture
async def reader(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> asyncpg.Connection:
    await tell_a_bit_of_everything(log)
    control = Bucket(log.connection, Publisher(log.connection), CONTROL)
    await control.put(member_key("executor", "executor-a"), msgspec.json.encode({"slots": 64, "used": 1}))
    await ensure_work_consumers(log.connection, [("default=email_send", "light", "0")])
    await log.raw(work_subject("default=email_send", "light", "0", "email@x", 1), b"{}")
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)

        async def counted() -> bool:
            """executors and queues are there"""
            query = "SELECT (SELECT count(*) FROM waterclock.executors) * (SELECT sum(waiting) FROM waterclock.queues)"
            return bool(await database.fetchval(query))

        await eventually(counted, through=AWAY)
    await database.execute("SET ROLE waterclock_reader")
    return database


async def test_every_documented_query_runs_and_finds_something(reader: asyncpg.Connection) -> None:
    assert len(QUESTIONS) > 15
    silent = []
    for question, query in QUESTIONS:
        # The document's example has to name some run; here it is one that exists.
        some_run = await reader.fetchval("SELECT run_id FROM waterclock.job_runs WHERE status = 'FAILED'")
        rows = await reader.fetch(query.replace("backup@20261116T030000Z", some_run))
        if not rows:
            silent.append(question)
    assert silent == []


async def test_every_view_for_people_adds_up(reader: asyncpg.Connection) -> None:
    health = await reader.fetchrow("SELECT * FROM waterclock.job_health WHERE job_id = 'backup'")
    assert health is not None
    assert (health["runs"], health["successes"], health["failures"]) == (5, 1, 2)
    assert float(health["success_rate"]) == pytest.approx(1 / 3, abs=1e-4)
    failures = await reader.fetchrow("SELECT * FROM waterclock.failures_by_job")
    assert failures is not None
    assert (failures["job_id"], failures["failures"], failures["timeouts"]) == ("backup", 2, 1)
    assert failures["last_reason"] == "over 5 s"
    lag = await reader.fetch("SELECT * FROM waterclock.lag_by_minute")
    assert sum(row["runs"] for row in lag) == 5
    upcoming = await reader.fetch("SELECT job_id FROM waterclock.upcoming")
    assert [row["job_id"] for row in upcoming] == ["backup"]
    attempts = await reader.fetch(
        "SELECT attempt_number, status FROM waterclock.job_attempts "
        "WHERE run_id = (SELECT run_id FROM waterclock.job_runs WHERE attempt_number = 2) ORDER BY 1"
    )
    assert [tuple(row) for row in attempts] == [(1, "FAILED"), (2, "SUCCESS")]
    nodes = await reader.fetch("SELECT id, status FROM waterclock.workflow_nodes ORDER BY id")
    assert [tuple(row) for row in nodes] == [("a", "QUEUED"), ("b", "WAITING")]
