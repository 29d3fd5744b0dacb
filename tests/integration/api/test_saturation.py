"""Offered more than is done: callers are refused with a time to try again, wait by themselves, and get in later.

Nobody schedules here. What the schedulers would say of themselves is written into the control bucket.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from support.heartbeats import scheduler_heartbeat
from support.waiting import eventually
from waterclock.api.client.client import Client
from waterclock.api.client.sync import SyncClient
from waterclock.api.errors import Saturated
from waterclock.core.domain import ids
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.data_directory import ConnectionInfo, write_connection
from waterclock.proto import methods, names
from waterclock.proto.heartbeats import SchedulerLoad

from .conftest import TOKEN, Served

RATE = 600.0
INSTANCE = "written-by-a-test"
KEY = names.member_key("scheduler", INSTANCE)


async def say(served: Served, load: SchedulerLoad | None, *, unread: int = 0, backlog: int = 0) -> None:
    """Have the api hear what the schedulers say of their load."""
    beat = scheduler_heartbeat(load, at=now_us(), instance=INSTANCE, unread=unread, backlog=backlog)
    await served.app.control.put(KEY, msgspec.json.encode(beat))
    await served.app.admission.hear()


async def say_behind(served: Served, **more: Any) -> None:
    """9 s behind, and 14 s of work at the rate at which it is done."""
    load = SchedulerLoad(
        to_drain=int(14 * RATE), ended_per_second=RATE, behind_seconds=9.0, saturated_since=now_us()
    )
    await say(served, load, **more)


async def use_up(served: Served, seconds: float = 10) -> None:
    """One bulk call that is more than a second's worth: for so long the rest of its namespace is refused."""
    count = int((seconds + 1) * RATE)
    jobs = [{"name": f"filler-{number}", "command": "true"} for number in range(count)]
    answer = await served.http.post("/v1/jobs:batch", content=json.dumps(jobs))
    assert answer.status_code == 200, answer.text


@pytest.fixture
async def behind(alone: Served) -> Served:
    await say_behind(alone)
    await use_up(alone)
    return alone


@pytest.fixture
async def briefly_behind(alone: Served) -> Served:
    """The time to try again is short enough for a test to wait for it."""
    await say_behind(alone)
    await use_up(alone, seconds=2)
    return alone


async def last_in(served: Served, stream: str) -> int:
    return (await stream_state(served.app.connection, stream)).last_seq


async def other_apis(served: Served, count: int) -> None:
    """The rate is shared with so many."""
    for number in range(count):
        beat = msgspec.structs.replace(served.app.admission.heartbeat(), instance=f"api-{number}")
        await served.app.control.put(names.member_key("api", beat.instance), msgspec.json.encode(beat))


CREATIONS = [
    ("/v1/jobs", {"name": "x", "command": "true"}),
    ("/v1/jobs:batch", {"name": "x", "command": "true"}),
    ("/v1/jobs:apply", {"definition": {"name": "x", "command": "true"}}),
    ("/v1/workflows", {"name": "w", "schedule": "now", "nodes": [{"id": "a", "command": "true"}]}),
]


@pytest.mark.parametrize(("path", "body"), CREATIONS)
async def test_a_creation_is_refused_with_a_time_to_try_again_and_nothing_is_written(
    behind: Served, path: str, body: dict[str, Any]
) -> None:
    before = await last_in(behind, names.JOBS)
    refused = await behind.http.post(path, json=body)
    assert refused.status_code == 503
    assert refused.headers["content-type"] == "application/problem+json"
    assert int(refused.headers["retry-after"]) >= 1
    problem = refused.json()
    assert problem["title"] == "Service Unavailable"
    assert "s of work to do" in problem["detail"]
    assert "takes 600 jobs a second; try again in" in problem["detail"]
    assert problem["retry_after"] == int(refused.headers["retry-after"])
    assert await last_in(behind, names.JOBS) == before


async def test_runs_and_backfills_are_refused_and_reads_and_edits_never(alone: Served) -> None:
    job = await alone.client.jobs.create(name="hourly", command="true", cron="0 * * * *")
    workflow = await alone.client.workflows.create(name="w", nodes=[{"id": "a", "command": "true"}])
    await say_behind(alone)
    await use_up(alone)
    before = await last_in(alone, names.RUNS)
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z", "reprocess": "all"}
    for path, body in (
        (f"/v1/jobs/{job.job_id}/runNow", {}),
        (f"/v1/workflows/{workflow.workflow_id}/runNow", {}),
        (f"/v1/jobs/{job.job_id}/backfill", span),
    ):
        assert (await alone.http.post(path, json=body)).status_code == 503, path
    assert await last_in(alone, names.RUNS) == before
    planned = await alone.http.post(f"/v1/jobs/{job.job_id}/backfill", json={**span, "dry_run": True})
    assert planned.status_code == 202
    applied = {
        "definition": {"name": "hourly", "job_id": job.job_id, "command": "false", "cron": "1 * * * *"}
    }
    assert (await alone.http.post("/v1/jobs:apply", json=applied)).json()["action"] == "updated"
    assert (await alone.http.get(f"/v1/jobs/{job.job_id}")).status_code == 200
    assert (await alone.http.patch(f"/v1/jobs/{job.job_id}", json={"priority": 4})).status_code == 200
    for verb in ("pause", "resume"):
        assert (await alone.http.post(f"/v1/jobs/{job.job_id}/{verb}")).status_code == 200
    assert (await alone.http.delete(f"/v1/jobs/{job.job_id}")).status_code == 200


async def test_over_nats_the_same_error_and_header(behind: Served) -> None:
    answer = await behind.nats.request(
        methods.JOBS_CREATE.subject,
        b'{"name": "x", "command": "true"}',
        timeout=5,
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    assert answer.headers is not None
    assert answer.headers["Nats-Service-Error-Code"] == "503"
    assert int(answer.headers["Retry-After"]) >= 1
    problem = json.loads(answer.data)
    assert (problem["status"], problem["jobs_per_second"]) == (503, RATE)
    assert problem["drain_seconds"] >= 14


async def test_jobs_of_the_far_future_are_accepted_until_too_much_is_unread(behind: Served) -> None:
    later = {"name": "x", "command": "true", "schedule_time": "2030-01-01T00:00:00Z"}
    assert (await behind.http.post("/v1/jobs", json=later)).status_code == 201
    assert (await behind.http.post("/v1/jobs:batch", content=json.dumps([later] * 20))).status_code == 200
    mixed = [later, {"name": "now", "command": "true"}]
    assert (await behind.http.post("/v1/jobs:batch", content=json.dumps(mixed))).status_code == 503
    await say_behind(behind, unread=80_000)
    many = json.dumps([later] * 9_000)
    both = await asyncio.gather(*(behind.http.post("/v1/jobs:batch", content=many) for _ in range(2)))
    assert sorted(answer.status_code for answer in both) == [200, 503], "one has used up what can be read now"


async def test_another_namespace_is_accepted(behind: Served) -> None:
    async with other_namespace(behind, "little") as little:
        for number in range(5):
            answer = await little.post("/v1/jobs", json={"name": f"l{number}", "command": "true"})
            assert answer.status_code == 201, answer.text
    assert (await behind.http.post("/v1/jobs", json={"name": "x", "command": "true"})).status_code == 503


@asynccontextmanager
async def other_namespace(served: Served, namespace: str) -> AsyncIterator[httpx.AsyncClient]:
    token = await served.client.tokens.create(scopes=["submit", "read"], namespace=namespace)
    async with httpx.AsyncClient(
        base_url=served.http.base_url, headers={"Authorization": f"Bearer {token.token}"}, timeout=20
    ) as client:
        yield client


async def test_a_large_body_is_refused_without_breaking_the_connection(behind: Served) -> None:
    await other_apis(behind, 9)
    await say_behind(behind, unread=200_000)
    later = {"name": "x", "command": "true", "schedule_time": "2030-01-01T00:00:00Z"}
    assert (await behind.http.post("/v1/jobs:batch", content=json.dumps([later] * 9_000))).status_code == 200
    body = json.dumps([{**later, "payload": "p" * 1000}] * 9_000)
    for _ in range(2):
        assert (await behind.http.post("/v1/jobs:batch", content=body)).status_code == 503


async def test_the_client_waits_says_so_once_and_gets_in_with_the_same_key(
    briefly_behind: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="waterclock.api.client.wire"):
        creating = asyncio.create_task(briefly_behind.client.jobs.create(name="patient", command="true"))
        await eventually(lambda: caplog.records, "the client to say that it waits")
        assert not creating.done()
        await say(briefly_behind, None)
        created = await creating
    (said,) = caplog.records
    assert said.getMessage().endswith(" s of work to do: submitting at its pace, 600/s")
    assert (await briefly_behind.client.jobs.get(created.job_id)).name == "patient"


async def test_a_client_waits_no_longer_than_it_was_told(behind: Served) -> None:
    url = behind.settings.nats_url
    async with Client.connect(url, token=TOKEN, saturated_patience=0.5) as hasty:
        with pytest.raises(Saturated) as refused:
            await hasty.jobs.create(name="x", command="true", idempotency_key="k")
        assert refused.value.retry_after is not None
        await say(behind, None)
        created = await hasty.jobs.create(name="x", command="true", idempotency_key="k")
        again = await hasty.jobs.create(name="x", command="true", idempotency_key="k")
    assert (created.created, again.created, again.job_id) == (True, False, created.job_id)


async def test_many_jobs_are_handed_over_at_its_pace_by_either_client(briefly_behind: Served) -> None:
    jobs = [{"name": f"many-{number}", "command": "true"} for number in range(700)]

    def hand_over() -> int:
        with SyncClient.connect(
            briefly_behind.settings.nats_url, token=TOKEN, saturated_patience=0.1
        ) as clock:
            return len(clock.jobs.create_many(jobs))

    both = asyncio.gather(asyncio.to_thread(hand_over), briefly_behind.client.jobs.create_many(jobs))
    await say_behind(briefly_behind)
    done, _ = await asyncio.wait((both,), timeout=1.0)
    assert not done
    await say(briefly_behind, None)
    by_sync, by_async = await both
    assert (by_sync, len(by_async)) == (700, 700)
    assert all(result.job_id for result in by_async)


async def test_the_command_line_says_one_line_and_goes_on(alone: Served, tmp_path: Path) -> None:
    await say_behind(alone)
    await use_up(alone, seconds=8)  # a program takes seconds to start where others run beside it
    settings = alone.settings
    place = ConnectionInfo(http="", nats=settings.nats_url or "", database="", token=TOKEN)
    await asyncio.to_thread(write_connection, tmp_path, place)
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps([{"name": f"n{number}", "command": "true"} for number in range(1200)]))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "waterclock.api.cli",
        "batch",
        str(file),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"WATERCLOCK_DATA": str(tmp_path), "PATH": ""},
    )
    assert process.stderr is not None
    said = (await asyncio.wait_for(process.stderr.readline(), 20)).decode()
    assert said.startswith("waterclock has ")
    assert said.endswith(" s of work to do: submitting at its pace, 600/s\n")
    await say(alone, None)
    out, rest = await process.communicate()
    assert (process.returncode, rest) == (0, b"")
    assert out.count(b"SCHEDULED") == 1200


async def test_apis_that_slow_callers_down_know_of_each_other(behind: Served) -> None:
    await other_apis(behind, 2)
    await behind.app.admission.hear()
    assert {found.instance for found in await behind.app.admission.others()} == {"api-0", "api-1"}
    assert behind.app.admission.apis == 3
    await say(behind, None)
    assert behind.app.admission.apis == 1


async def test_status_says_since_when_and_how_far_behind_over_rest_and_nats(behind: Served) -> None:
    await say_behind(behind, unread=30, backlog=8_370)
    by_rest = (await behind.http.get("/v1/status")).json()
    load = by_rest["load"]
    assert (load["saturated"], load["drain_seconds"]) == (True, 14.0)
    assert (load["behind_seconds"], load["backlog"], load["unread"]) == (9.0, 8_370, 30)
    assert load["ended_per_second"] == RATE
    assert load["accepted_per_second"] > 0
    assert load["since"] is not None
    said = {check["name"]: check for check in by_rest["checks"]}["load"]
    assert not said["ok"]
    assert "9 s behind, 14 s to drain" in said["detail"]
    assert "callers are slowed down" in said["detail"]
    by_nats = await behind.client.system.status()
    assert (by_nats.load.saturated, by_nats.load.backlog) == (True, 8_370)
    held = (await behind.client.partitions.list())[0]
    assert (held.backlog, held.unread) == (8_370, 30)
    await say(behind, SchedulerLoad(to_drain=5, ended_per_second=RATE))
    after = (await behind.client.system.status()).load
    assert (after.saturated, after.since) == (False, None)


async def test_a_namespace_with_too_much_waiting_for_executors_is_refused_and_no_other(alone: Served) -> None:
    await say(alone, SchedulerLoad(crowded={"default": 250_000}))
    job = {"name": "x", "command": "true"}
    refused = await alone.http.post("/v1/jobs", json=job)
    assert (refused.status_code, refused.json()["waiting"]) == (503, 250_000)
    assert int(refused.headers["Retry-After"]) >= 1
    later = job | {"schedule_time": "2030-01-01T00:00:00Z"}
    assert (await alone.http.post("/v1/jobs", json=later)).status_code == 201
    said = (await alone.client.system.status()).checks
    assert "namespaces that get no more in: 1" in next(check.detail for check in said if check.name == "load")
    await say(alone, SchedulerLoad(crowded={"other": 250_000}))
    assert (await alone.http.post("/v1/jobs", json=job)).status_code == 201


async def test_metrics_say_it_too(behind: Served) -> None:
    await behind.http.post("/v1/jobs", json={"name": "x", "command": "true"})
    page = (await behind.http.get("/metrics")).text
    assert "waterclock_drain_seconds 14.0" in page
    assert "waterclock_behind_seconds 9.0" in page
    assert "waterclock_saturated 1.0" in page
    assert 'waterclock_api_admissions_total{result="admitted"}' in page
    assert 'waterclock_api_admissions_total{result="saturated"}' in page


async def test_why_of_a_fire_that_nobody_has_come_to_says_that_the_system_is_behind(alone: Served) -> None:
    created = await alone.client.jobs.create(name="x", command="true")
    definition = await alone.app.definitions.read(created.job_id)
    assert definition is not None
    await say_behind(alone)
    by_job = await alone.client.jobs.why(created.job_id)
    assert (by_job.reason, by_job.answer.partition(", ")[2]) == (
        "undecided",
        "not decided yet: the system is 9 s behind; no executor is running",
    )
    run_id = ids.run_id(created.job_id, definition.job.created_at)
    by_run = await alone.client.runs.why(run_id)
    assert (by_run.subject, by_run.answer) == (run_id, by_job.answer)


async def test_the_command_line_shows_it_in_status_and_top(behind: Served, tmp_path: Path) -> None:
    place = ConnectionInfo(http="", nats=behind.settings.nats_url or "", database="", token=TOKEN)
    await asyncio.to_thread(write_connection, tmp_path, place)
    assert "9 s behind, 14 s to drain" in await shown(tmp_path, "status")
    assert (await shown(tmp_path, "top", "--once")).startswith("waterclock is saturated since ")
    assert "BACKLOG" in await shown(tmp_path, "partitions")


async def shown(data: Path, *command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "waterclock.api.cli",
        *command,
        stdout=asyncio.subprocess.PIPE,
        env={"WATERCLOCK_DATA": str(data), "PATH": "", "COLUMNS": "200"},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    return out.decode()
