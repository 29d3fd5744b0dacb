"""One thing done to many jobs or runs: by ids or by a filter, tried first, cut short and gone on with."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from support.waiting import eventually
from waterclock.api.commands.bulk import pages
from waterclock.api.errors import Invalid
from waterclock.proto.verdicts import TERMINAL

from .conftest import Served
from .test_access import holding

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def projected(house: Served) -> None:
    """As soon as the projector, which starts with the house, has shown itself."""
    await house.client.jobs.create(name="something", command="true", cron="@yearly")
    await eventually(lambda: house.client.jobs.list(), wanted=lambda page: bool(page.items))


async def made(house: Served, label: str, number: int, **fields: Any) -> list[str]:
    """So many jobs with a label; answers their ids in order."""
    definition = {"command": "true", "cron": "@yearly", "max_retries": 0, **fields}
    results = await house.client.jobs.create_many(
        {"name": label, **definition, "job_id": f"{label}-{place:04}", "labels": {"team": label}}
        for place in range(number)
    )
    assert all(one.status == "SCHEDULED" for one in results), results[:3]
    return [str(one.job_id) for one in results]


async def statuses(house: Served, label: str) -> list[str]:
    return [job.status async for job in house.client.jobs.all(label=[f"team={label}"], limit=500)]


async def failed(house: Served, label: str, number: int) -> list[str]:
    """So many runs that failed; answers the ids of their jobs."""
    jobs = await made(house, label, number, command="exit 1", cron=None)
    await runs_are(house, jobs, "FAILED")
    return jobs


async def runs_are(house: Served, jobs: list[str], status: str, attempt: int = 1) -> None:
    async def all_of_them() -> bool:
        found = await asyncio.gather(*(house.client.runs.list(job) for job in jobs))
        return all(
            [(run.status, run.attempt_number) for run in page.items] == [(status, attempt)] for page in found
        )

    await eventually(all_of_them, f"runs to be {status}", 60)


async def test_jobs_that_match_are_paused_resumed_and_cancelled(house: Served) -> None:
    await made(house, "many", 20)
    await made(house, "others", 2)
    wanted: dict[str, Any] = {"filter": {"label": ["team=many"]}}
    tried = (
        await house.http.post("/v1/jobs:bulk", json={"action": "pause", "dry_run": True, **wanted})
    ).json()
    assert (tried["matched"], tried["done"], tried["refused"]) == (20, 0, [])
    assert set(await statuses(house, "many")) == {"SCHEDULED"}
    done = (await house.http.post("/v1/jobs:bulk", json={"action": "pause", "note": "move", **wanted})).json()
    assert (done["matched"], done["done"], done["refused"], done["next_cursor"]) == (20, 20, [], None)
    assert await statuses(house, "many") == ["PAUSED"] * 20
    assert await statuses(house, "others") == ["SCHEDULED"] * 2
    assert (await house.client.jobs.get("many-0003")).note == "move"
    newest = (await house.client.jobs.versions("many-0003")).items[0]
    assert (newest.change, newest.actor, newest.note) == ("paused", "token:bootstrap", "move")
    again = await house.client.jobs.bulk(action="pause", **wanted)
    assert (again.matched, again.done) == (0, 0), "what is so already does not match"
    resumed = await house.client.jobs.bulk(action="resume", **wanted)
    assert resumed.done == 20
    cancelled = await house.client.jobs.bulk(action="cancel", **wanted)
    assert cancelled.done == 20
    assert await statuses(house, "many") == ["CANCELLED"] * 20


async def test_jobs_by_their_ids_fail_alone(house: Served) -> None:
    first, second, third = await made(house, "named", 3)
    await house.client.jobs.cancel(third)
    chosen = [first, "nobody", third, second, first]
    tried = await house.client.jobs.bulk(action="pause", ids=chosen, dry_run=True)
    assert (tried.matched, tried.done) == (2, 0)
    assert {one.id for one in tried.refused} == {"nobody", third}
    done = await house.client.jobs.bulk(action="pause", ids=chosen)
    assert (done.matched, done.done) == (4, 2)
    reasons = {one.id: one.reason for one in done.refused}
    assert reasons == {"nobody": "there is no job nobody", third: f"job {third} is cancelled"}


async def test_jobs_are_run_now_once_for_a_key(house: Served) -> None:
    jobs = await made(house, "begun", 12)
    wanted: dict[str, Any] = {"action": "runNow", "filter": {"label": ["team=begun"]}}
    for _ in range(2):
        answer = await house.http.post("/v1/jobs:bulk", json=wanted, headers={"Idempotency-Key": "one"})
        assert answer.json()["done"] == 12
    await runs_are(house, jobs, "SUCCESS")
    await house.http.post("/v1/jobs:bulk", json=wanted)

    async def twice() -> bool:
        found = await asyncio.gather(*(house.client.runs.list(job) for job in jobs))
        return all(len(page.items) == 2 for page in found)

    await eventually(twice, "each to have run again")


async def test_a_call_that_is_cut_short_says_where_to_go_on(
    house: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_SECONDS", -1.0)
    await made(house, "long", 1200)
    wanted: dict[str, Any] = {"action": "pause", "filter": {"label": ["team=long"]}}
    first = await house.client.jobs.bulk(**wanted)
    assert (first.matched, first.done) == (500, 500)
    assert first.next_cursor is not None
    rest = await house.client.jobs.bulk(**wanted, cursor=first.next_cursor)
    assert (rest.matched, rest.done) == (500, 500)
    repeated = await house.client.jobs.bulk(**wanted)
    assert (repeated.matched, repeated.done, repeated.next_cursor) == (200, 200, None)
    by_id = await house.client.jobs.bulk(action="resume", ids=[f"long-{n:04}" for n in range(1200)])
    assert (by_id.done, by_id.next_cursor is None) == (500, False)
    assert (await statuses(house, "long")).count("SCHEDULED") == 500


async def test_runs_that_failed_are_tried_again_and_what_waits_is_cancelled(house: Served) -> None:
    jobs = await failed(house, "broken", 15)
    wanted: dict[str, Any] = {"label": ["team=broken"]}
    tried = await house.client.runs.bulk(action="retry", filter=wanted, dry_run=True)
    assert (tried.matched, tried.done) == (15, 0)
    none = await house.client.runs.bulk(action="retry", filter={**wanted, "status": ["CANCELLED"]})
    assert none.matched == 0
    for job in jobs:
        await house.client.jobs.update(job, command="true")
    done = (await house.http.post("/v1/runs:bulk", json={"action": "retry", "filter": wanted})).json()
    assert (done["matched"], done["done"], done["refused"]) == (15, 15, [])
    await runs_are(house, jobs, "FAILED", attempt=2)
    stuck = await made(house, "stuck", 5, command=None, handler="nobody_serves_this", cron=None)
    await runs_are(house, stuck, "QUEUED")
    stopped = await house.client.runs.bulk(action="cancel", filter={"label": ["team=stuck"]}, note="enough")
    assert stopped.done == 5
    await runs_are(house, stuck, "CANCELLED")


async def test_runs_by_their_ids_fail_alone(house: Served) -> None:
    [job] = await failed(house, "single", 1)
    [bad] = [run.run_id for run in (await house.client.runs.list(job)).items]
    good = await house.client.jobs.create(name="good", command="true")
    run = await eventually(
        lambda: house.client.jobs.status(good.job_id),
        wanted=lambda found: found.latest_run is not None and found.latest_run.status in TERMINAL,
    )
    assert run.latest_run is not None
    done = await house.client.runs.bulk(action="retry", ids=[bad, "nobody@x", run.latest_run.run_id])
    assert (done.matched, done.done) == (3, 1)
    assert {one.id: one.reason.partition(";")[0] for one in done.refused} == {
        "nobody@x": "there is no run nobody@x",
        run.latest_run.run_id: f"run {run.latest_run.run_id} is SUCCESS",
    }
    stopped = await house.client.runs.bulk(action="cancel", ids=[run.latest_run.run_id])
    assert [one.reason for one in stopped.refused] == [f"run {run.latest_run.run_id} has ended: SUCCESS"]


async def test_waves_are_run_again_as_a_whole_and_members_not_by_themselves(house: Served) -> None:
    labels = {"team": "wave"}
    nodes: list[dict[str, Any]] = [
        {"id": "a", "command": "true"},
        {"id": "b", "command": "exit 1", "depends_on": ["a"], "max_retries": 0},
    ]
    graph = await house.client.workflows.create(name="wave", nodes=nodes, labels=labels)
    wave = (await house.client.workflows.run_now(graph.workflow_id)).workflow_run_id

    async def attempts(number: int) -> bool:
        found = await house.client.workflows.wave(wave)
        [b] = [node for node in found.nodes if node.id == "b"]
        return (found.status, b.status, b.attempt_number) == ("FAILED", "FAILED", number)

    await eventually(lambda: attempts(1), "the wave to fail", 40)
    done = await house.client.runs.bulk(action="retry", filter={"label": ["team=wave"]})
    assert (done.matched, done.done, done.refused) == (2, 2, [])
    await eventually(lambda: attempts(2), "the wave to fail again", 40)
    fan = await house.client.jobs.create(
        name="fan", command="exit 1", max_retries=0, fan_out={"over": [1]}, labels={"team": "fan"}
    )
    await runs_are(house, [fan.job_id], "FAILED")
    refused = await house.client.runs.bulk(
        action="retry", filter={"label": ["team=fan"], "trigger": "fan_out"}
    )
    assert [("run the whole job again" in one.reason) for one in refused.refused] == [True]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("jobs", {"action": "pause"}, "filter"),
        ("jobs", {"action": "pause", "ids": ["a"], "filter": {}}, "filter"),
        ("jobs", {"action": "explode", "filter": {}}, "action"),
        ("jobs", {"action": "pause", "filter": {"status": "NICE"}}, "filter.status"),
        ("jobs", {"action": "pause", "filter": {"colour": "blue"}}, "filter.colour"),
        ("jobs", {"action": "pause", "filter": {"q": "\0"}}, "filter.q"),
        ("jobs", {"action": "pause", "filter": {"created_after": "2026-01-01T00:00:00"}}, "filter.created_after"),
        ("jobs", {"action": "pause", "filter": {}, "cursor": "nonsense"}, "cursor"),
        ("runs", {"action": "retry"}, "filter"),
        ("runs", {"action": "retry", "filter": {"trigger": "moon"}}, "filter.trigger"),
        ("runs", {"action": "retry", "filter": {"from": "yesterday"}}, "filter.from"),
        ("runs", {"action": "cancel", "ids": ["a"] * 10_001}, "ids"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(house: Served, path: str, body: dict[str, Any], field: str) -> None:
    answer = await house.http.post(f"/v1/{path}:bulk", json=body)
    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_it_is_recorded_who_did_it_and_others_are_not_touched(house: Served) -> None:
    await made(house, "ours", 1)
    scopes = ["read", "submit", "operate"]
    async with (
        holding(house, scopes=scopes, namespace="acme") as acme,
        holding(house, scopes=["read", "submit"]) as without,
    ):
        mine = {"job_id": "mine", "command": "true", "cron": "@yearly", "labels": {"team": "ours"}}
        assert (await acme.post("/v1/jobs", json=mine)).status_code == 201
        everything = {"action": "pause", "filter": {}}
        done = (await acme.post("/v1/jobs:bulk", json=everything)).json()
        assert (done["matched"], done["done"]) == (1, 1)
        assert await statuses(house, "ours") == ["SCHEDULED"]
        strange = (
            await acme.post("/v1/jobs:bulk", json={"action": "resume", "ids": ["mine", "ours-0000"]})
        ).json()
        assert strange["done"] == 1
        assert strange["refused"] == [{"id": "ours-0000", "reason": "there is no job ours-0000"}]
        assert (await without.post("/v1/jobs:bulk", json=everything)).status_code == 403
        records = (await house.http.get("/v1/audit/access?action=jobs.bulk&namespace=acme")).json()["items"]
        assert {one["actor"] for one in records} == {f"token:{acme.headers['Token-Id']}"}
        assert [(one["subject"], one["detail"]) for one in records] == [
            ("resume", "2 by id"),
            ("pause", "{}"),
        ]


async def test_refusals_are_listed_up_to_a_hundred(house: Served) -> None:
    done = await house.client.jobs.bulk(action="pause", ids=[f"nobody-{n}" for n in range(250)])
    assert (done.done, len(done.refused), done.more_refused) == (0, 100, 150)
    with pytest.raises(Invalid):
        await house.client.jobs.bulk(action="pause")
