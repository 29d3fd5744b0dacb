"""What components do on NATS only now and then, done once with their own users: the house fails if one is refused."""

import asyncio

import msgspec
import pytest

from waterclock.proto import names

from .conftest import Served
from .test_runs import finished

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOUD = "head -c 400000 /dev/zero | tr '\\0' x"


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "true", "delivery": "exactly_once"},
        {"command": "true", "concurrency_key": "a key", "concurrency_limit": 2},
        {"command": "true", "rate_key": "a rate", "rate_per_second": 100},
        {"command": "exit 1", "max_retries": 1, "retry": {"initial_seconds": 0.1, "jitter": False}},
        {"command": LOUD},
        {"command": "true", "fan_out": {"over": {"range": 3}}},
    ],
    ids=lambda fields: " ".join(fields),
)
async def test_a_job_of_this_kind_runs(house: Served, fields: dict[str, object]) -> None:
    made = await house.http.post("/v1/jobs", json={"name": "of a kind", **fields})
    assert made.status_code == 201, made.text
    run = await finished(house, made.json()["job_id"])
    assert run.status == ("FAILED" if fields["command"] == "exit 1" else "SUCCESS"), run.error_message
    if fields["command"] == LOUD:
        log = await house.http.get(f"/v1/runs/{run.run_id}/log")
        assert len(log.content) >= 400_000


async def test_artifacts_run_and_their_lines_fan_out(house: Served) -> None:
    program = (await house.http.post("/v1/artifacts", content=b"#!/bin/sh\necho ran\n")).json()["artifact"]
    few = (await house.http.post("/v1/artifacts", content=b"1\n2\n")).json()["artifact"]
    for fields in (
        {"artifact": program},
        {"command": "true", "fan_out": {"over": {"lines": few}}},
    ):
        made = await house.http.post("/v1/jobs", json={"name": "from an artifact", **fields})
        assert made.status_code == 201, made.text
        assert (await finished(house, made.json()["job_id"])).status == "SUCCESS"


async def test_a_dependent_job_runs_after_what_it_waits_for(house: Served) -> None:
    first = await house.http.post("/v1/jobs", json={"job_id": "before", "name": "b", "command": "sleep 1"})
    assert first.status_code == 201
    body = {"job_id": "after", "name": "a", "command": "true", "dependencies": ["before"]}
    second = await house.http.post("/v1/jobs", json=body)
    assert second.status_code == 201, second.text
    await finished(house, "before")
    async with asyncio.timeout(20):
        while not [run for run in (await house.http.get("/v1/jobs/after/runs")).json() if run["end_time"]]:
            await asyncio.sleep(0.05)


async def test_an_api_may_say_that_it_slows_callers_down(house: Served) -> None:
    beat = msgspec.json.encode(house.app.admission.heartbeat())
    await house.app.control.put(names.member_key("api", "another"), beat, ttl=2)
    assert [found.instance for found in await house.app.admission.others()] == []  # it is our own
    assert [entry.value for entry in await house.app.control.scan(names.member_key("api", "*"))] == [beat]
