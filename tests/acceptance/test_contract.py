"""Every row of the contract, on the real program, from outside."""

import asyncio
import json
from typing import Any

import asyncpg
import nats
import pytest

from contracts.bodies import CONTRACT_BODIES
from support.program import ENDED, Program
from support.waiting import wait_until
from waterclock.api import Client, SyncClient


@pytest.mark.parametrize("body", CONTRACT_BODIES, ids=["once", "cron", "command"])
def test_the_three_bodies_define_jobs(waterclock: Program, body: dict[str, Any]) -> None:
    created = waterclock.post("/v1/jobs", body)
    assert set(created) >= {"job_id", "version", "status", "next_run_at"}
    assert waterclock.get(f"/v1/jobs/{created['job_id']}")["version"] == created["version"]


def test_a_job_that_waits_for_a_handler_says_so(waterclock: Program) -> None:
    created = waterclock.post("/v1/jobs", {"job_type": "nobody_serves_this"})
    run = wait_until(
        lambda: waterclock.get(f"/v1/jobs/{created['job_id']}/status")["latest_run"], "the run to be queued"
    )
    assert run["status"] in ("QUEUED", "WAITING")
    why = waterclock.get(f"/v1/runs/{run['run_id']}/why")
    assert "nobody_serves_this" in json.dumps(why) or "nobody_serves_this" in (run["reason"] or "")
    waterclock.http.delete(f"/v1/jobs/{created['job_id']}")


def test_a_job_runs_over_rest_and_is_in_sql(waterclock: Program) -> None:
    created = waterclock.post("/v1/jobs", {"name": "hi", "command": ["echo", "hi"]})
    run = waterclock.run_of(created["job_id"])
    assert (run["status"], run["exit_code"]) == ("SUCCESS", 0)
    assert waterclock.http.get(f"/v1/runs/{run['run_id']}/log").text == "hi\n"
    assert [one["run_id"] for one in waterclock.get(f"/v1/jobs/{created['job_id']}/runs")] == [run["run_id"]]
    assert waterclock.get(f"/v1/runs/{run['run_id']}/events")
    assert asyncio.run(_status_in_sql(waterclock, run["run_id"])) == "SUCCESS"


async def _status_in_sql(waterclock: Program, run_id: str) -> str:
    connection = await asyncpg.connect(waterclock.connection["database"])
    try:
        return str(
            await connection.fetchval("SELECT status FROM waterclock.job_runs WHERE run_id = $1", run_id)
        )
    finally:
        await connection.close()


def test_a_job_is_managed_over_rest(waterclock: Program) -> None:
    waterclock.post("/v1/jobs", {"job_id": "managed", "schedule": "@yearly", "command": "true"})
    path = "/v1/jobs/managed"
    tag = waterclock.http.get(path).headers["etag"]
    assert waterclock.http.put(path, json={"priority": 3}, headers={"If-Match": tag}).status_code == 200
    assert waterclock.http.patch(path, json={"priority": 4}, headers={"If-Match": tag}).status_code == 412
    assert waterclock.post(f"{path}/pause", status=200)["status"] == "PAUSED"
    assert waterclock.post(f"{path}/resume", status=200)["status"] == "SCHEDULED"
    run_id = waterclock.post(f"{path}/runNow", status=202)["run_id"]
    wait_until(lambda: waterclock.http.get(f"/v1/runs/{run_id}").json().get("status") in ENDED, "run-now")
    assert len(waterclock.get(f"{path}/next", n=3)["fires"]) == 3
    backfill = waterclock.post(
        f"{path}/backfill", {"from": "2024-01-01T00:00:00Z", "to": "2025-06-01T00:00:00Z"}, status=202
    )
    assert backfill["total"] == 2
    found = f"/v1/backfills/{backfill['backfill_id']}"
    wait_until(lambda: waterclock.get(found)["status"] == "COMPLETED", "the backfill")
    assert waterclock.http.delete(path).json()["status"] == "CANCELLED"


def test_schedules_are_previewed(waterclock: Program) -> None:
    body = {
        "cron_expression": "30 2 * * *",
        "timezone": "Europe/Paris",
        "from": "2026-03-29T00:00:00Z",
        "overlap": "skip",
        "catch_up": {"policy": "none"},
        "n": 2,
    }
    fires = waterclock.post("/v1/schedules/preview", body, status=200)["fires"]
    assert fires[0] == {
        "time": "2026-03-29T01:00:00Z",
        "local": "2026-03-29T03:00:00+02:00",
        "note": "dst_gap",
    }


def test_what_is_next_counts_the_fires_that_were_taken(waterclock: Program) -> None:
    waterclock.post("/v1/jobs", {"job_id": "twice", "every": "1s", "max_fires": 2, "command": "true"})
    left: list[int] = []

    def completed() -> bool:
        left.append(len(waterclock.get("/v1/jobs/twice/next", n=10)["fires"]))
        return bool(waterclock.get("/v1/jobs/twice")["status"] == "COMPLETED")

    wait_until(completed, "both fires")
    assert waterclock.get("/v1/jobs/twice/next", n=10) == {"fires": []}
    assert left == sorted(left, reverse=True)


def test_a_call_reaches_a_server_on_this_machine(waterclock: Program) -> None:
    """`up` runs everything here, commands included: the contract's `http` needs no setting to try it."""
    url = waterclock.connection["http"] + "/healthz"
    created = waterclock.post("/v1/jobs", {"name": "call", "http": {"method": "GET", "url": url}})
    run = waterclock.run_of(created["job_id"])
    assert (run["status"], run["output"]["status"]) == ("SUCCESS", "ok"), run


def test_dead_letters_are_redriven(waterclock: Program) -> None:
    created = waterclock.post("/v1/jobs", {"name": "dead", "command": "exit 1", "max_retries": 0})
    run = waterclock.run_of(created["job_id"])
    letters = waterclock.get("/v1/dead-letters", job_id=created["job_id"])
    assert [letter["run_id"] for letter in letters["items"]] == [run["run_id"]]
    redriven = waterclock.post("/v1/dead-letters/redrive", {"run_ids": [run["run_id"]]}, status=200)
    assert redriven["run_ids"] == [run["run_id"]]
    wait_until(
        lambda: waterclock.get(f"/v1/runs/{run['run_id']}")["attempt_number"] == 2, "the second attempt"
    )


def test_a_workflow_runs(waterclock: Program) -> None:
    nodes = [
        {"id": "fetch", "command": "echo '{\"rows\": 7}'"},
        {"id": "load", "command": ["echo", "{{ nodes.fetch.output.rows }}"], "depends_on": ["fetch"]},
    ]
    created = waterclock.post("/v1/workflows", {"name": "etl", "workflow_id": "etl", "nodes": nodes})
    assert created["workflow_id"] == "etl"
    started = waterclock.post("/v1/workflows/etl/runNow", {"parameters": {}}, status=202)
    assert started["epoch"] == 1
    path = f"/v1/workflow-runs/{started['workflow_run_id']}"
    wait_until(lambda: waterclock.get(path)["status"] in ENDED, "the wave")
    wave = waterclock.get(path)
    assert (wave["status"], wave["edges"]) == ("SUCCESS", [["fetch", "load"]])
    assert {node["id"]: node["output"] for node in wave["nodes"]} == {"fetch": {"rows": 7}, "load": 7}


def test_artifacts_are_kept_by_their_digest(waterclock: Program) -> None:
    script = b"#!/bin/sh\necho artifact $1\n"
    pushed = waterclock.http.post("/v1/artifacts", content=script).json()
    assert pushed["size"] == len(script)
    assert waterclock.http.get(f"/v1/artifacts/{pushed['artifact']}").content == script
    assert waterclock.http.head(f"/v1/artifacts/{pushed['artifact']}").headers["content-length"] == str(
        len(script)
    )
    created = waterclock.post("/v1/jobs", {"name": "a", "artifact": pushed["artifact"], "args": ["says hi"]})
    run = waterclock.run_of(created["job_id"])
    assert waterclock.http.get(f"/v1/runs/{run['run_id']}/log").text == "artifact says hi\n"


def test_operations_and_pages(waterclock: Program) -> None:
    for path in ("/v1/executors", "/v1/queues", "/v1/partitions"):
        assert waterclock.get(path)["items"], path
    for path in ("/healthz", "/readyz", "/metrics", "/", "/docs", "/openapi.json"):
        assert waterclock.http.get(path, headers={"Authorization": ""}).status_code == 200, path


def test_the_nats_service_is_found_and_answers(waterclock: Program) -> None:
    async def ask() -> tuple[dict[str, Any], dict[str, Any], Any]:
        found = waterclock.connection
        connection = await nats.connect(found["nats"], inbox_prefix=found["nats_inbox"])
        try:
            info = await connection.request("$SRV.INFO.waterclock")
            body = json.dumps({"name": "over nats", "command": "true"}).encode()
            created = await connection.request("waterclock.v1.jobs.create", body)
            refused = await connection.request("waterclock.v1.jobs.create", b'{"name": ""}')
            return json.loads(info.data), json.loads(created.data), refused
        finally:
            await connection.close()

    info, created, refused = asyncio.run(ask())
    assert info["name"] == "waterclock"
    assert "waterclock.v1.jobs.create" in [endpoint["subject"] for endpoint in info["endpoints"]]
    assert waterclock.run_of(created["job_id"])["status"] == "SUCCESS"
    assert refused.headers["Nats-Service-Error-Code"] == "422"
    assert json.loads(refused.data)["errors"][0]["field"] == "name"


def test_the_python_client_creates_and_watches(waterclock: Program) -> None:
    async def watched() -> list[str | None]:
        async with Client.connect(data=waterclock.data) as clock:
            job = await clock.jobs.create(name="watched", command=["echo", "hi"], delay="300ms")
            return [change.status async for change in clock.runs.watch(job.job_id)]

    assert asyncio.run(asyncio.wait_for(watched(), 30))[-1] == "SUCCESS"


def test_the_sync_client_does_the_same(waterclock: Program) -> None:
    with SyncClient.connect(data=waterclock.data) as clock:
        job = clock.jobs.create(name="sync", command=["echo", "hi"], delay="300ms")
        seen = [change.status for change in clock.runs.watch(job.job_id)]
        assert seen[-1] == "SUCCESS"
        run = clock.jobs.status(job.job_id).latest_run
        assert run is not None
        assert "".join(clock.runs.log(run.run_id)) == "hi\n"


def test_the_command_line_runs_a_job_to_its_end(waterclock: Program) -> None:
    good = waterclock.cli("submit", "hello", "--wait", "--", "echo", "hi")
    assert (good.returncode, good.stdout) == (0, "hi\n"), good.stderr
    bad = waterclock.cli("submit", "no", "--retries", "0", "--wait", "--", "false")
    assert bad.returncode == 1
    assert "exit code 1" in bad.stderr
    assert waterclock.cli("job", "nobody").returncode == 3
    assert waterclock.cli("submit", "x", "--cron", "nonsense", "--", "true").returncode == 2
    assert waterclock.cli("status").returncode in (0, 1)
    rebuilt = waterclock.cli("projector", "rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
