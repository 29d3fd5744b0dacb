"""Without read models jobs are accepted and shown; without the log callers hear it, and nothing is half done."""

import asyncio
import json
from pathlib import Path

import asyncpg
import msgspec
import pytest

from servers.server import Server
from support.waiting import eventually
from waterclock.api.readmodels.pool import Pool, ReadModelsAway
from waterclock.projector.sql.migrator import migrate
from waterclock.projector.write.database import SCHEMA, connect
from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat

from .conftest import Served, serving, settings_for

NOWHERE = "postgresql://nobody:nothing@127.0.0.1:1/none"


async def test_without_postgres_jobs_are_accepted_and_shown(nats_url: str, tmp_path: Path) -> None:
    async with serving(settings_for(tmp_path, nats_url, NOWHERE)) as served:
        created = await served.http.post(
            "/v1/jobs", json={"name": "x", "command": "true", "schedule": "@daily"}
        )
        assert created.status_code == 201
        job = await served.http.get(created.headers["location"])
        assert (job.status_code, job.json()["last_run"]) == (200, None)
        assert job.json()["next_run_at"] is not None
        status = await served.http.get(f"{created.headers['location']}/status")
        assert (status.status_code, status.json()["latest_run"]) == (200, None)
        assert (await served.http.patch(created.headers["location"], json={"priority": 4})).status_code == 200
        assert (await served.http.post(f"{created.headers['location']}/pause")).json()["status"] == "PAUSED"
        for path in ("/v1/jobs", f"{created.headers['location']}/runs", "/v1/dead-letters", "/v1/runs/x@y"):
            away = await served.http.get(path)
            assert away.status_code == 503, path
            assert int(away.headers["retry-after"]) >= 1
            assert away.headers["content-type"] == "application/problem+json"
        assert (await served.http.get("/readyz")).status_code == 200


async def test_without_the_log_nothing_is_accepted_and_it_recovers(
    nats_server: Server, tmp_path: Path
) -> None:
    async with serving(settings_for(tmp_path, nats_server.url, None)) as served:
        body = {"name": "x", "command": "true", "schedule": "@daily", "idempotency_key": "through the outage"}
        await asyncio.to_thread(nats_server.kill)
        refused = await served.http.post("/v1/jobs", json=body)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert (await served.http.get("/readyz")).status_code == 503
        assert (await served.http.get("/healthz")).status_code == 200
        batch = await served.http.post("/v1/jobs:batch", content=json.dumps(body))
        assert batch.status_code == 503 or json.loads(batch.text)["status"] == 503
        await asyncio.to_thread(nats_server.start)
        accepted = await _accepted(served, body)
        again = await served.http.post("/v1/jobs", json=body)
        assert (again.status_code, again.json()["job_id"]) == (200, accepted)


async def test_a_client_call_survives_a_restart_of_the_log(nats_server: Server, tmp_path: Path) -> None:
    async with serving(settings_for(tmp_path, nats_server.url, None)) as served:
        await asyncio.to_thread(nats_server.kill)
        creating = asyncio.create_task(served.client.jobs.create(name="x", command="true", cron="@daily"))
        await asyncio.to_thread(nats_server.start)
        created = await creating
        assert (await served.client.jobs.get(created.job_id)).name == "x"


async def test_a_run_the_projector_has_not_seen_is_shown_from_the_log(alone: Served) -> None:
    """Nobody projects here: the tables are there, and stay empty."""
    database = await connect(alone.settings.database_url or "", name="test", schema=SCHEMA)
    try:
        await migrate(database, SCHEMA)
    finally:
        await database.close()
    created = await alone.client.jobs.create(name="x", command="true", cron="@yearly")
    asked = await alone.client.jobs.run_now(created.job_id)
    run = await alone.client.runs.get(asked.run_id)
    assert (run.run_id, run.job_id, run.status) == (asked.run_id, created.job_id, "WAITING")
    assert (await alone.http.get(f"/v1/runs/{created.job_id}@now-unknown")).status_code == 404


async def test_a_postgres_that_hangs_does_not_hold_up_what_the_log_knows(alone: Served) -> None:
    database = await connect(alone.settings.database_url or "", name="test", schema=SCHEMA)
    try:
        await migrate(database, SCHEMA)
        created = await alone.client.jobs.create(name="x", command="true", cron="@yearly")
        async with database.transaction():
            await database.execute(f"LOCK TABLE {SCHEMA}.jobs, {SCHEMA}.projection_state")
            for path in ("", "/status"):
                async with asyncio.timeout(6):
                    answer = await alone.http.get(f"/v1/jobs/{created.job_id}{path}")
                assert (answer.status_code, answer.json()["status"]) == (200, "SCHEDULED")
    finally:
        await database.close()


async def _accepted(served: Served, body: dict[str, str]) -> str:
    async with asyncio.timeout(20):
        while True:
            answer = await served.http.post("/v1/jobs", json=body)
            if answer.status_code in (200, 201):
                return str(answer.json()["job_id"])
            assert answer.status_code == 503


async def test_tables_on_their_way_to_a_newer_version_are_away(
    nats_url: str, database_url: str, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("CREATE SCHEMA waterclock; CREATE TABLE waterclock.job_runs (run_id text)")
    async with serving(settings_for(tmp_path, nats_url, database_url)) as served:
        created = await served.http.post("/v1/jobs", json={"name": "x", "command": "true"})
        assert created.status_code == 201
        answer = await served.http.get("/v1/runs/x@20260101T000000Z")
        assert answer.status_code == 503, answer.text
        assert answer.headers["Retry-After"]
    await connection.close()


async def test_a_heartbeat_of_another_version_takes_nobody_elses_from_sight(alone: Served) -> None:
    for component in ("scheduler", "executor"):
        await alone.app.control.put(names.member_key(component, "newer"), b'{"instance": 7}')
    living = msgspec.json.encode(ExecutorHeartbeat(instance="ours", state="running"))
    await alone.app.control.put(names.member_key("executor", "ours"), living)
    assert (await alone.http.get("/v1/status")).status_code == 200
    executors = (await alone.http.get("/v1/executors")).json()["items"]
    assert [executor["executor_id"] for executor in executors] == ["ours"]
    assert (await alone.http.get("/v1/partitions")).status_code == 200


async def test_a_reader_that_crosses_a_change_of_the_tables_hears_that_they_are_away(
    database_url: str,
) -> None:
    """The query has the first table and waits for the second, whose owner now wants the first: Postgres refuses the
    one that has waited for a second, which is the query."""
    owner = await connect(database_url, name="a migration", patience=None)
    watcher = await asyncpg.connect(database_url)
    await owner.execute("CREATE TABLE public.first (x int); CREATE TABLE public.second (x int)")
    async with Pool.open(database_url) as pool:
        async with owner.transaction():
            await owner.execute("LOCK TABLE public.second IN ACCESS EXCLUSIVE MODE")
            reading = asyncio.create_task(pool.fetch("SELECT * FROM public.first, public.second"))
            await eventually(
                lambda: watcher.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"), "it to wait"
            )
            await owner.execute("LOCK TABLE public.first IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(ReadModelsAway, match="Deadlock"):
                await reading
        assert await pool.fetch("SELECT * FROM public.first, public.second") == []
    await owner.close()
    await watcher.close()
