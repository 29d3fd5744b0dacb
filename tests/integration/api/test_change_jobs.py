"""Jobs are changed by version, none of two edits is lost, and what cannot be done is refused."""

import asyncio

import pytest

from waterclock.api.errors import Conflict

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_edit_changes_what_it_says_and_nothing_else(house: Served) -> None:
    created = await house.client.jobs.create(
        name="a", command="true", cron="0 3 * * *", priority=5, labels={"k": "v"}
    )
    path = f"/v1/jobs/{created.job_id}"
    edited = await house.http.patch(path, json={"cron_expression": "0 4 * * *", "timezone": "Europe/Paris"})
    assert edited.status_code == 200, edited.text
    job = edited.json()
    assert (job["cron_expression"], job["timezone"]) == ("0 4 * * *", "Europe/Paris")
    assert (job["priority"], job["labels"], job["name"]) == (5, {"k": "v"}, "a")
    assert job["version"] > created.version
    assert job["next_run_at"][11:13] in ("02", "03")
    assert (await house.http.put(path, json={"priority": None})).json()["priority"] == 0


async def test_an_edit_meant_for_another_version_is_refused(house: Served) -> None:
    created = await house.client.jobs.create(name="a", command="true", cron="@daily")
    path = f"/v1/jobs/{created.job_id}"
    ours = await house.http.patch(path, json={"priority": 1}, headers={"If-Match": f'"{created.version}"'})
    assert ours.status_code == 200
    for tag in (f'"{created.version}"', f'W/"{created.version}"', "0", '"nonsense"'):
        theirs = await house.http.patch(path, json={"priority": 2}, headers={"If-Match": tag})
        assert theirs.status_code == 412, tag
    assert (await house.http.patch(path, json={"priority": 3}, headers={"If-Match": "*"})).status_code == 200


async def test_of_edits_at_the_same_time_none_is_lost(house: Served) -> None:
    created = await house.client.jobs.create(name="a", command="true", cron="@daily")
    path = f"/v1/jobs/{created.job_id}"
    edits = [{"priority": 7}, {"tier": "heavy"}, {"timeout_seconds": 60}, {"max_retries": 4}]
    answers = await asyncio.gather(*(house.http.patch(path, json=edit) for edit in edits))
    assert [answer.status_code for answer in answers] == [200] * 4
    job = (await house.http.get(path)).json()
    assert (job["priority"], job["tier"], job["timeout_seconds"], job["max_retries"]) == (7, "heavy", 60, 4)
    crowd = [house.http.patch(path, json={"metadata": {"from": number}}) for number in range(20)]
    assert [answer.status_code for answer in await asyncio.gather(*crowd)] == [200] * 20


async def test_a_paused_job_stays_paused_until_it_is_resumed(house: Served) -> None:
    created = await house.client.jobs.create(name="a", command="true", cron="@daily")
    path = f"/v1/jobs/{created.job_id}"
    paused = (await house.http.post(f"{path}/pause", json={"note": "audit"})).json()
    assert (paused["status"], paused["note"], paused["next_run_at"]) == ("PAUSED", "audit", None)
    again = (await house.http.post(f"{path}/pause")).json()
    assert again["version"] == paused["version"]
    assert (await house.http.patch(path, json={"priority": 1})).json()["status"] == "PAUSED"
    assert (await house.http.get(f"{path}/next")).json() == {"fires": []}
    resumed = (await house.http.post(f"{path}/resume", json={})).json()
    assert resumed["status"] == "SCHEDULED"
    assert resumed["next_run_at"] is not None


async def test_a_cancelled_job_is_cancelled_for_good(house: Served) -> None:
    created = await house.client.jobs.create(name="a", command="true", cron="@daily")
    path = f"/v1/jobs/{created.job_id}"
    for _ in range(2):
        cancelled = await house.http.delete(path)
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")
    for verb, where in (
        ("PATCH", path),
        ("POST", f"{path}/pause"),
        ("POST", f"{path}/resume"),
        ("POST", f"{path}/runNow"),
    ):
        assert (await house.http.request(verb, where, json={})).status_code in (200, 409), where
    assert (await house.http.patch(path, json={"priority": 1})).status_code == 409
    assert (await house.http.post(f"{path}/runNow")).status_code == 409


async def test_a_job_born_in_a_frame_is_changed_like_any_other(house: Served) -> None:
    results = await house.client.jobs.create_many(
        {"name": str(n), "command": "true", "cron": "@daily"} for n in range(5)
    )
    job_id = str(results[3].job_id)
    assert "~" in job_id
    paused = await house.client.jobs.pause(job_id, note="one of five")
    assert (paused.job_id, paused.name, paused.status) == (job_id, "3", "PAUSED")
    assert (await house.client.jobs.get(job_id)).status == "PAUSED"
    assert (await house.client.jobs.get(str(results[2].job_id))).status == "SCHEDULED"


async def test_run_now_with_a_key_is_one_run(house: Served) -> None:
    created = await house.client.jobs.create(name="a", command="true", cron="@yearly")
    first = await house.client.jobs.run_now(created.job_id, idempotency_key="press the button")
    again = await house.client.jobs.run_now(created.job_id, idempotency_key="press the button")
    other = await house.client.jobs.run_now(created.job_id)
    assert first.run_id == again.run_id != other.run_id
    async for change in house.client.runs.watch(first.run_id):
        if change.final:
            break
    runs = await house.client.runs.list(created.job_id)
    assert sorted(run.run_id for run in runs.items) == sorted((first.run_id, other.run_id))


async def test_what_was_asked_for_is_found_where_the_answer_says(house: Served) -> None:
    await house.http.post("/v1/jobs", json={"job_id": "pointed", "command": "true", "schedule": "@daily"})
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    for path, body in (("runNow", {}), ("backfill", span)):
        answer = await house.http.post(f"/v1/jobs/pointed/{path}", json=body)
        assert answer.status_code == 202, answer.text
        found = await house.http.get(answer.headers["location"])
        assert (found.status_code, found.json()["job_id"]) == (200, "pointed")
    planned = await house.http.post("/v1/jobs/pointed/backfill", json={**span, "dry_run": True})
    assert (planned.status_code, planned.headers.get("location")) == (202, None)


async def test_the_client_names_a_lost_race(house: Served) -> None:
    created = await house.client.jobs.create(name="a", command="true", cron="@yearly")
    await house.client.jobs.cancel(created.job_id)
    with pytest.raises(Conflict):
        await house.client.jobs.update(created.job_id, priority=1)
