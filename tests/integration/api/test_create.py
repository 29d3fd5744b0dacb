"""A definition that was accepted is there at once, and is accepted once."""

import asyncio
import json
from typing import Any

import pytest

from contracts.bodies import CONTRACT_BODIES
from waterclock.api.errors import Conflict

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOB_FIELDS = """
    job_id name schedule_type status schedule_time cron_expression interval_seconds timezone start_at end_at
    jitter_seconds max_fires dst_gap dst_overlap overlap catch_up task payload labels metadata dependencies priority
    tier queue max_retries retry timeout_seconds delivery critical retention idempotency_key version next_run_at
    last_run created_at updated_at
"""


@pytest.mark.parametrize("body", CONTRACT_BODIES, ids=["once", "cron", "command"])
async def test_the_bodies_of_the_contract_work_as_they_stand(house: Served, body: dict[str, Any]) -> None:
    answer = await house.http.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    accepted = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{accepted['job_id']}"
    assert accepted["status"] == "SCHEDULED"
    found = await house.http.get(answer.headers["location"])
    assert found.status_code == 200
    job = found.json()
    assert set(job) >= set(JOB_FIELDS.split())
    assert found.headers["etag"] == f'"{accepted["version"]}"'
    assert job["version"] == accepted["version"]
    assert job["max_retries"] == body.get("retries", body.get("max_retries"))
    assert job["next_run_at"] == accepted["next_run_at"] is not None
    assert (await house.http.get(f"/jobs/{accepted['job_id']}")).json() == job


async def test_a_handler_is_named_after_its_job(house: Served) -> None:
    accepted = await house.client.jobs.create(name="Daily Data Cleanup", cron="0 0 * * *")
    job = await house.client.jobs.get(accepted.job_id)
    assert getattr(job.task, "handler", None) == "daily_data_cleanup"


async def test_the_same_key_gives_the_same_job(house: Served) -> None:
    body = {"name": "once only", "command": "true", "schedule": "@yearly"}
    first = await house.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "key-1"})
    again = await house.http.post("/v1/jobs", json={**body, "idempotency_key": "key-1"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["job_id"] == first.json()["job_id"]
    assert again.json()["version"] == first.json()["version"]
    assert again.headers["location"] == first.headers["location"]


async def test_of_many_repeats_at_once_one_makes_the_job(house: Served) -> None:
    body = {"name": "race", "command": "true", "schedule": "@yearly", "idempotency_key": "race"}
    answers = await asyncio.gather(*(house.http.post("/v1/jobs", json=body) for _ in range(25)))
    assert sorted(answer.status_code for answer in answers) == [200] * 24 + [201]
    assert len({answer.json()["job_id"] for answer in answers}) == 1


async def test_a_key_used_for_something_else_is_a_conflict_with_a_diff(house: Served) -> None:
    await house.client.jobs.create(name="a", command="true", cron="@daily", idempotency_key="diff")
    with pytest.raises(Conflict) as refused:
        await house.client.jobs.create(name="a", command="false", cron="@hourly", idempotency_key="diff")
    assert isinstance(refused.value.problem.differences, tuple)
    assert {difference.field for difference in refused.value.problem.differences} == {
        "task",
        "cron_expression",
    }


async def test_a_repeat_is_compared_with_the_first_request_not_with_later_edits(house: Served) -> None:
    fields: dict[str, Any] = {"name": "edited", "command": "true", "every": "1h", "idempotency_key": "edited"}
    first = await house.client.jobs.create(**fields)
    await house.http.patch(f"/v1/jobs/{first.job_id}", json={"priority": 9})
    again = await house.client.jobs.create(**fields)
    assert (again.created, again.job_id) == (False, first.job_id)


async def test_a_repeated_delay_is_the_same_request(house: Served) -> None:
    fields: dict[str, Any] = {"name": "later", "command": "true", "delay": "1h", "idempotency_key": "later"}
    first = await house.client.jobs.create(**fields)
    again = await house.client.jobs.create(**fields)
    assert (again.created, again.next_run_at) == (False, first.next_run_at)
    with pytest.raises(Conflict):
        await house.client.jobs.create(**{**fields, "delay": "2h"})


async def test_a_job_may_be_centuries_away(house: Served) -> None:
    """The server cannot count that far when it should forget the definition: it keeps it."""
    far = {"command": "true", "schedule_time": "3477-03-24T02:33:17Z"}
    alone = await house.http.post("/v1/jobs", json=far)
    many = await house.http.post("/v1/jobs:batch", json=[far, {**far, "job_id": "far"}])
    assert alone.status_code == 201, alone.text
    assert [json.loads(line)["status"] for line in many.text.splitlines()] == ["SCHEDULED", "SCHEDULED"]


async def test_an_id_that_is_taken_is_a_conflict(house: Served) -> None:
    body = {"job_id": "taken", "name": "a", "command": "true", "schedule": "@yearly"}
    assert (await house.http.post("/v1/jobs", json=body)).status_code == 201
    refused = await house.http.post("/v1/jobs", json=body)
    assert refused.status_code == 409
    assert refused.json()["errors"][0]["field"] == "job_id"


@pytest.mark.parametrize("shape", ["lines", "array"])
async def test_in_bulk_each_line_is_answered_in_order_and_fails_alone(house: Served, shape: str) -> None:
    jobs: list[dict[str, Any]] = [
        {"name": f"{n}", "command": "true", "schedule": "@yearly"} for n in range(50)
    ]
    jobs[7] = {"name": "bad", "command": "true", "schedule": "never"}
    jobs[20] = {"name": "named", "job_id": f"bulk-{shape}", "command": "true", "schedule": "@yearly"}
    jobs[30] = jobs[20]
    body = "\n".join(map(json.dumps, jobs)) if shape == "lines" else json.dumps(jobs)
    answer = await house.http.post("/v1/jobs:batch", content=body)
    assert answer.status_code == 200
    results = [json.loads(line) for line in answer.text.splitlines()]
    assert [result["line"] for result in results] == list(range(1, 51))
    assert [n for n, result in enumerate(results) if "errors" in result] == [7, 30]
    assert (results[7]["status"], results[30]["status"]) == (422, 409)
    assert results[20]["job_id"] == f"bulk-{shape}"
    for n in (0, 20, 49):
        job = (await house.http.get(f"/v1/jobs/{results[n]['job_id']}")).json()
        assert (job["name"], job["version"]) == (jobs[n]["name"], results[n]["version"])


async def test_more_than_ten_thousand_lines_are_too_many(house: Served) -> None:
    answer = await house.http.post("/v1/jobs:batch", content=b"{}\n" * 10_001)
    assert answer.status_code == 413


async def test_many_jobs_through_the_client(house: Served) -> None:
    results = await house.client.jobs.create_many(
        {"name": f"many {n}", "command": "true", "schedule": "@yearly"} for n in range(1200)
    )
    assert [result.line for result in results] == list(range(1, 1201))
    job = await house.client.jobs.get(str(results[1100].job_id))
    assert job.name == "many 1100"


async def test_a_bulk_call_repeated_with_its_key_makes_no_second_set(house: Served) -> None:
    jobs: list[dict[str, Any]] = [
        {"name": f"{n}", "command": "true", "schedule": "@yearly"} for n in range(300)
    ]
    jobs += [{"name": f"{n}", "command": "true"} for n in range(10)]
    jobs += [{"name": "named", "job_id": "bulk-repeated", "command": "true", "schedule": "@yearly"}]
    body = json.dumps(jobs)
    first, again = [
        [json.loads(line) for line in answer.text.splitlines()]
        for answer in [
            await house.http.post("/v1/jobs:batch", content=body, headers={"Idempotency-Key": "a whole set"})
            for _ in range(2)
        ]
    ]
    assert all("errors" not in line for line in first)
    assert [line["job_id"] for line in again] == [line["job_id"] for line in first]
    assert [line["version"] for line in again] == [line["version"] for line in first]
    other = await house.http.post("/v1/jobs:batch", content=body, headers={"Idempotency-Key": "another"})
    assert json.loads(other.text.splitlines()[0])["job_id"] != first[0]["job_id"]


async def test_a_bulk_call_with_the_key_of_another_is_told_so(house: Served) -> None:
    headers = {"Idempotency-Key": "of another"}
    for name, status in (("one", 201), ("two", 409), ("one", 201)):
        body = {"name": name, "command": "true", "schedule": "@yearly"}
        answer = await house.http.post("/v1/jobs:batch", content=json.dumps([body]), headers=headers)
        line = json.loads(answer.text)
        if status == 409:
            assert (line["status"], line["detail"]) == (
                409,
                "the idempotency key was used for a call with other jobs",
            )
        else:
            assert line["job_id"]


async def test_what_must_come_first_must_exist(house: Served) -> None:
    upstream = await house.client.jobs.create(name="upstream", command="true", cron="@yearly")
    after = await house.client.jobs.create(name="after", command="true", dependencies=[upstream.job_id])
    job = await house.client.jobs.get(after.job_id)
    assert (job.schedule_type, job.dependencies) == ("DEPENDENT", (upstream.job_id,))
    refused = await house.http.patch(f"/v1/jobs/{upstream.job_id}", json={"dependencies": [after.job_id]})
    assert refused.status_code == 422
    assert (
        f"{upstream.job_id} -> {after.job_id} -> {upstream.job_id}" in refused.json()["errors"][0]["reason"]
    )
