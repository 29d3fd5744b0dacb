"""What runs can be seen, followed, stopped and tried again, over REST and by the client."""

import asyncio
import json
import time
from typing import Any

import pytest

from support.waiting import eventually
from waterclock.api.errors import Conflict
from waterclock.proto.answers import Run
from waterclock.proto.verdicts import TERMINAL

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUN_FIELDS = """
    run_id job_id workflow_run_id epoch status reason attempt_number crash_count scheduled_time due_time queued_time
    start_time end_time modified_time executor_id exit_code error_message output log_url fencing_token created_at
"""


async def finished(house: Served, job_id: str) -> Run:
    """The job's only run, at its end."""
    async with asyncio.timeout(20):
        async for change in house.client.runs.watch(
            job_id, since=(await house.client.jobs.get(job_id)).created_at
        ):
            if change.final:
                assert change.run_id is not None
                return await house.client.runs.get(change.run_id)
    raise AssertionError("the job never ran")


async def state_of(house: Served, run_id: str, *wanted: str) -> Run:
    deadline = time.monotonic() + 15
    while (run := await house.client.runs.get(run_id)).status not in wanted:
        assert time.monotonic() < deadline, f"{run_id} is {run.status}"
        await asyncio.sleep(0.02)
    return run


async def test_a_job_runs_and_shows_how_it_went(house: Served) -> None:
    created = (
        await house.http.post("/v1/jobs", json={"name": "hi", "command": "echo '{\"rows\": 3}'"})
    ).json()
    run = await finished(house, created["job_id"])
    assert (run.status, run.exit_code, run.output, run.attempt_number) == ("SUCCESS", 0, {"rows": 3}, 1)
    status = (await house.http.get(f"/v1/jobs/{created['job_id']}/status")).json()
    assert status["job_id"] == created["job_id"]
    latest = status["latest_run"]
    assert set(latest) >= set(RUN_FIELDS.split())
    assert (latest["run_id"], latest["status"]) == (run.run_id, "SUCCESS")
    assert latest["start_time"] <= latest["end_time"]
    assert (await house.http.get(f"/v1/runs/{run.run_id}")).json() == latest
    assert (await house.http.get(f"/v1/jobs/{created['job_id']}/runs")).json() == [latest]
    job = (await house.http.get(f"/v1/jobs/{created['job_id']}")).json()
    assert (job["status"], job["last_run"]["run_id"], job["next_run_at"]) == ("COMPLETED", run.run_id, None)


async def test_a_failure_says_why(house: Served) -> None:
    created = await house.client.jobs.create(name="no", command="echo out of paper >&2; exit 3")
    run = await finished(house, created.job_id)
    assert (run.status, run.exit_code) == ("FAILED", 3)
    assert "out of paper" in (run.error_message or "")
    assert "3" in (run.reason or "")


async def test_output_is_kept_and_served_as_it_was(house: Served) -> None:
    created = await house.client.jobs.create(name="says", command="printf 'one\\ntwo\\n'; printf '\\377' >&2")
    run = await finished(house, created.job_id)
    answer = await house.http.get(f"/v1/runs/{run.run_id}/log")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.content == b"one\ntwo\n\xff"
    assert run.log_url == f"/v1/runs/{run.run_id}/log"
    assert "".join([text async for text in house.client.runs.log(run.run_id)]) == "one\ntwo\n\ufffd"


async def test_output_is_followed_while_it_is_said(house: Served) -> None:
    go = house.settings.data.parent / f"{house.settings.data.name}-go"
    created = await house.client.jobs.create(
        name="slow", command=f"echo first; while ! test -e {go}; do sleep 0.05; done; echo last"
    )
    run_id = await _first_run(house, created.job_id)
    await state_of(house, run_id, "RUNNING")
    heard = ""
    async with asyncio.timeout(15):
        async for text in house.client.runs.log(run_id, follow=True):
            heard += text
            if "first" in heard:
                await asyncio.to_thread(go.touch)
    assert heard == "first\nlast\n"
    async with house.http.stream("GET", f"/v1/runs/{run_id}/log?follow=1") as late:
        assert await late.aread() == b"first\nlast\n"


async def test_the_output_of_all_attempts_is_one_text(house: Served) -> None:
    created = await house.client.jobs.create(
        name="flaky",
        command="echo attempt $WATERCLOCK_ATTEMPT; test $WATERCLOCK_ATTEMPT -ge 3",
        max_retries=4,
        retry={"initial_seconds": 0.1, "jitter": False},
    )
    run = await finished(house, created.job_id)
    assert (run.status, run.attempt_number) == ("SUCCESS", 3)
    assert (await house.http.get(f"/v1/runs/{run.run_id}/log")).text == "attempt 1\nattempt 2\nattempt 3\n"
    assert (await house.http.get(f"/v1/runs/{run.run_id}/log?attempt=2")).text == "attempt 2\n"


async def test_a_running_run_is_stopped(house: Served) -> None:
    created = await house.client.jobs.create(name="long", command=["sleep", "60"])
    run_id = await _first_run(house, created.job_id)
    await state_of(house, run_id, "RUNNING")
    asked = await house.http.post(f"/v1/runs/{run_id}/cancel", json={"note": "enough"})
    assert asked.status_code == 200
    run = await state_of(house, run_id, *TERMINAL)
    assert run.status == "CANCELLED"
    again = await house.http.post(f"/v1/runs/{run_id}/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "CANCELLED")


async def test_deleting_a_job_stops_what_it_runs(house: Served) -> None:
    created = await house.client.jobs.create(name="long", command=["sleep", "60"])
    run_id = await _first_run(house, created.job_id)
    await state_of(house, run_id, "RUNNING")
    assert (await house.http.delete(f"/v1/jobs/{created.job_id}")).status_code == 200
    assert (await state_of(house, run_id, *TERMINAL)).status == "CANCELLED"


async def test_a_dead_letter_is_listed_and_tried_again(house: Served) -> None:
    flag = house.settings.data.parent / f"{house.settings.data.name}-repaired"
    created = await house.client.jobs.create(name="broken", command=["test", "-e", str(flag)], max_retries=0)
    run = await finished(house, created.job_id)
    assert run.status == "FAILED"
    letters = (await house.http.get(f"/v1/dead-letters?job_id={created.job_id}")).json()
    assert [letter["run_id"] for letter in letters["items"]] == [run.run_id]
    await asyncio.to_thread(flag.touch)
    redriven = (
        await house.http.post("/v1/dead-letters/redrive", json={"run_ids": [run.run_id, "nobody@x"]})
    ).json()
    assert redriven["run_ids"] == [run.run_id]
    assert [refusal["id"] for refusal in redriven["refused"]] == ["nobody@x"]
    again = await state_of(house, run.run_id, "SUCCESS")
    assert (again.run_id, again.attempt_number) == (run.run_id, 2)
    assert (await house.client.dead_letters.list(job_id=created.job_id)).items == []
    with pytest.raises(Conflict):
        await house.client.runs.retry(run.run_id)


async def test_dead_letters_are_redriven_by_a_filter(house: Served) -> None:
    created = await house.client.jobs.create(
        name="broken", command="echo particular trouble >&2; exit 1", cron="@yearly"
    )
    runs = [(await house.client.jobs.run_now(created.job_id)).run_id for _ in range(3)]
    for run_id in runs:
        await state_of(house, run_id, *TERMINAL)
    failed = [run.run_id for run in (await house.client.runs.list(created.job_id, status="FAILED")).items]
    assert failed
    redriven = await house.client.dead_letters.redrive(job_id=created.job_id, q="particular")
    assert sorted(redriven.run_ids) == sorted(failed)
    for run_id in failed:
        await state_of(house, run_id, "FAILED")
    said = {"filter": {"job_id": created.job_id, "q": "particular"}}
    for body in (said, {"ids": failed}):
        answer = await house.http.post("/v1/dead-letters/redrive", json=body)
        assert sorted(answer.json()["run_ids"]) == sorted(failed), answer.text
        for run_id in failed:
            await state_of(house, run_id, "FAILED")
    twice = await house.http.post("/v1/dead-letters/redrive", json={**said, "q": "particular"})
    assert (twice.status_code, twice.json()["errors"][0]["field"]) == (422, "filter")


async def test_runs_are_paged_newest_first_while_new_ones_come(house: Served) -> None:
    created = await house.client.jobs.create(name="often", command="true", cron="@yearly", overlap="allow")

    async def fire(count: int) -> list[str]:
        runs = [(await house.client.jobs.run_now(created.job_id)).run_id for _ in range(count)]
        for run_id in runs:
            await state_of(house, run_id, *TERMINAL)
        return runs

    before = await fire(7)
    page = await house.http.get(f"/v1/jobs/{created.job_id}/runs?limit=3")
    seen = [run["run_id"] for run in page.json()]
    await fire(2)
    while link := page.headers.get("link"):
        page = await house.http.get(link[1 : link.index(">")])
        seen += [run["run_id"] for run in page.json()]
    assert seen == before[::-1]


async def test_jobs_are_listed_by_filters_and_pages(house: Served) -> None:
    made = []
    for n in range(7):
        labels = {"team": "x", "n": str(n)}
        created = await house.client.jobs.create(
            name=f"list {n:02}", command="true", cron="@yearly", labels=labels
        )
        made.append(created.job_id)
    await house.client.jobs.pause(made[2])
    page = (await house.http.get("/v1/jobs?label=team=x&limit=3&sort=name")).json()
    names = [job["name"] for job in page["items"]]
    while page["next_cursor"]:
        page = (
            await house.http.get(f"/v1/jobs?label=team=x&limit=3&sort=name&cursor={page['next_cursor']}")
        ).json()
        names += [job["name"] for job in page["items"]]
    assert names == [f"list {n:02}" for n in range(7)]

    async def found(**filters: Any) -> list[str]:
        return [job.job_id async for job in house.client.jobs.all(limit=2, **filters)]

    assert await found(label=["team=x"]) == made[::-1]
    unsaid = await house.http.get("/v1/jobs?status=&label=team%3Dx&label=&q=&limit=2&cursor=")
    assert [job["job_id"] for job in unsaid.json()["items"]] == made[:-3:-1], unsaid.text
    assert await found(label=["team=x", "n=4"]) == [made[4]]
    assert await found(label=["team", "n"], sort="created_at") == made
    assert await found(label=["team=x"], status="PAUSED") == [made[2]]
    assert await found(q="list 05") == [made[5]]
    assert await found(name="list 06") == [made[6]]
    assert await found(q="100%_") == []


async def test_events_are_served_as_they_happen(house: Served) -> None:
    created = await house.client.jobs.create(name="seen", command="true", cron="@yearly")
    heard: list[tuple[str, dict[str, Any]]] = []
    async with house.http.stream("GET", f"/v1/events?job={created.job_id}") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        async with asyncio.timeout(15):
            assert (await anext(lines)).startswith("id: "), "where the stream begins is said at once"
            await house.client.jobs.pause(created.job_id, note="look")
            await house.client.jobs.run_now(created.job_id)
            kind = ""
            async for line in lines:
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    heard.append((kind, json.loads(value)))
                    if kind == "succeeded":
                        break
    kinds = [kind for kind, _ in heard]
    assert {"job_paused", "requested", "queued", "succeeded"} <= set(kinds)
    assert {change["job_id"] for _, change in heard} == {created.job_id}
    position = heard[0][1]["position"]
    async with house.http.stream(
        "GET", f"/v1/events?job={created.job_id}&after={position}&stay_seconds=1"
    ) as stream:
        again = (await stream.aread()).decode()
    assert "event: succeeded" in again
    assert "event: position" not in again
    assert f'"position":"{position}"' not in again.partition("\n\n")[2]


async def test_watching_what_is_over_ends_at_once(house: Served) -> None:
    created = await house.client.jobs.create(name="over", command="exit 3")
    run = await finished(house, created.job_id)
    for watched in (run.run_id, created.job_id):
        async with asyncio.timeout(5):
            seen = [change async for change in house.client.runs.watch(watched)]
        assert [(change.type, change.status, change.exit_code, change.final) for change in seen] == [
            ("failed", "FAILED", 3, True)
        ]


async def test_who_is_there(house: Served) -> None:
    await eventually(house.client.fleet.status, "all to be well", wanted=lambda status: status.ok)
    await finished(house, (await house.client.jobs.create(name="work", command="true")).job_id)
    (executor,) = await house.client.fleet.executors()
    assert executor.status == "ACTIVE"
    partitions = await house.client.fleet.partitions()
    assert [partition.partition for partition in partitions] == [0, 1, 2, 3]
    assert all(partition.owner for partition in partitions)
    assert any(queue.queue == "default" for queue in await house.client.fleet.queues())
    status = await house.client.fleet.status()
    assert [check.name for check in status.checks] == [
        "log",
        "store",
        "schedulers",
        "load",
        "executors",
        "confinement",
        "queues",
        "read models",
        "quarantine",
    ]


async def _first_run(house: Served, job_id: str) -> str:
    async with asyncio.timeout(15):
        async for change in house.client.runs.watch(
            job_id, since=(await house.client.jobs.get(job_id)).created_at
        ):
            if change.run_id is not None:
                return change.run_id
    raise AssertionError("no run")
