"""Who changed a job, what it was, what an edit would do, and back again; and all of it as declarations."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
import yaml

from support.waiting import eventually
from waterclock.api.errors import Conflict, Invalid, NotFound, VersionMismatch

from .conftest import Served
from .test_access import holding

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def projected(house: Served) -> None:
    """As soon as the projector, which starts with the house, has shown itself."""
    await house.client.jobs.create(name="something", command="true", cron="@yearly")
    await eventually(lambda: house.client.jobs.list(), wanted=lambda page: bool(page.items))


async def edited(house: Served, job_id: str, **more: Any) -> list[int]:
    """A job with three versions; answers their numbers."""
    first = await house.client.jobs.create(
        job_id=job_id, command="true", cron="0 3 * * *", env={"PW": {"secret": "db"}}, **more
    )
    second = await house.client.jobs.update(job_id, cron="0 4 * * *", priority=7)
    third = await house.client.jobs.pause(job_id, note="lunch")
    return [first.version, second.version, third.version]


async def test_every_change_is_a_version_with_its_author(house: Served) -> None:
    first, second, third = await edited(house, "versioned")
    answer = await house.http.get("/v1/jobs/versioned/versions")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [(one["version"], one["change"], one["fields"]) for one in found] == [
        (third, "paused", []),
        (second, "updated", ["priority", "cron_expression"]),
        (first, "created", []),
    ]
    assert {one["actor"] for one in found} == {"token:bootstrap"}
    assert found[0]["note"] == "lunch"
    assert found[0]["at"] >= found[1]["at"] >= found[2]["at"]
    then = (await house.http.get(f"/v1/jobs/versioned/versions/{first}")).json()
    assert (then["cron_expression"], then["priority"], then["status"]) == ("0 3 * * *", 0, "SCHEDULED")
    assert then["task"]["env"] == {"PW": {"secret": "db"}}
    assert (then["version"], then["last_run"], then["next_run_at"]) == (first, None, None)


async def test_versions_come_in_pages(house: Served) -> None:
    versions = await edited(house, "paged")
    page = await house.http.get("/v1/jobs/paged/versions?limit=2")
    assert [one["version"] for one in page.json()] == versions[:0:-1]
    rest = await house.http.get(page.links["next"]["url"])
    assert [(one["version"], one["change"]) for one in rest.json()] == [(versions[0], "created")]
    assert "link" not in rest.headers
    through = await house.client.jobs.versions("paged", limit=1, cursor=None)
    assert through.items[0].version == versions[-1]


async def test_a_version_of_another_job_is_none_of_this_one(house: Served) -> None:
    await edited(house, "mine")
    other = await house.client.jobs.create(job_id="other", command="true", cron="@yearly")
    with pytest.raises(NotFound, match="mine has no version"):
        await house.client.jobs.version("mine", other.version)
    with pytest.raises(NotFound, match="mine has no version"):
        await house.client.jobs.rollback("mine", version=other.version)


async def test_a_rollback_is_an_edit_with_an_author(house: Served) -> None:
    first, second, _ = await edited(house, "restored")
    await house.client.jobs.resume("restored")
    stale = await house.http.post(
        "/v1/jobs/restored/rollback", json={"version": first}, headers={"If-Match": f'"{second}"'}
    )
    assert stale.status_code == 412
    back = (await house.http.post("/v1/jobs/restored/rollback", json={"version": first})).json()
    assert (back["cron_expression"], back["priority"], back["status"]) == ("0 3 * * *", 0, "SCHEDULED")
    assert back["version"] > second
    assert back["next_run_at"][11:16] == "03:00"
    newest = (await house.client.jobs.versions("restored")).items[0]
    assert newest.change == f"rollback to version {first}"
    assert newest.fields == ["priority", "cron_expression"]
    again = await house.client.jobs.rollback("restored", version=first)
    assert again.version == back["version"], "it is so already"


async def test_a_rollback_neither_resumes_nor_revives(house: Served) -> None:
    first, *_ = await edited(house, "still-paused")
    back = await house.client.jobs.rollback("still-paused", version=first)
    assert (back.status, back.cron_expression) == ("PAUSED", "0 3 * * *")
    await house.client.jobs.cancel("still-paused")
    with pytest.raises(Conflict, match="is cancelled"):
        await house.client.jobs.rollback("still-paused", version=first)


async def test_a_rollback_to_what_cannot_be_any_more_says_which_field(house: Served) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    short = await house.client.jobs.create(job_id="short", command="true", every="1s", end_at=soon)
    await house.client.jobs.update("short", cron="@yearly", end_at=None)

    async def refusal() -> bool:
        try:
            await house.client.jobs.rollback("short", version=short.version)
        except Invalid as error:
            return [one.field for one in error.problem.errors] == ["end_at"]
        await house.client.jobs.update("short", cron="@yearly", end_at=None)
        return False

    await eventually(refusal, "the end of the schedule to pass")


async def test_a_rollback_to_a_time_that_is_over_runs_at_once_as_an_edit_does(house: Served) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=4)
    first = await house.client.jobs.create(job_id="past", command="true", schedule_time=soon)
    moved = await house.client.jobs.update("past", cron="@yearly")
    assert moved.updated_at < soon, "this machine is too slow to tell"
    await eventually(lambda: datetime.now(UTC) > soon, "the time to pass")
    await house.client.jobs.pause("past")
    with pytest.raises(Conflict, match="resume it first"):
        await house.client.jobs.rollback("past", version=first.version)
    await house.client.jobs.resume("past")
    assert (await house.client.runs.list("past")).items == []
    back = await house.client.jobs.rollback("past", version=first.version)
    run = await eventually(
        lambda: house.client.runs.list("past"),
        wanted=lambda page: [one.status for one in page.items] == ["SUCCESS"],
    )
    assert run.items[0].scheduled_time == back.updated_at


async def test_workflows_have_versions_too(house: Served) -> None:
    nodes: list[dict[str, Any]] = [
        {"id": "a", "command": "true"},
        {"id": "b", "command": "true", "depends_on": ["a"]},
    ]
    made = await house.client.workflows.create(workflow_id="graph", name="graph", nodes=nodes, cron="@daily")
    await house.client.workflows.update("graph", nodes=nodes[:1])
    page = await house.client.workflows.versions("graph")
    assert [(one.change, one.fields) for one in page.items] == [("updated", ["nodes"]), ("created", [])]
    then = await house.client.workflows.version("graph", made.version)
    assert [node.id for node in then.nodes] == ["a", "b"]
    back = (await house.http.post("/v1/workflows/graph/rollback", json={"version": made.version})).json()
    assert [node["id"] for node in back["nodes"]] == ["a", "b"]
    tried = await house.client.workflows.what_if(
        "graph", cron="0 */12 * * *", end="2100-01-01T00:00:00Z", start="2099-12-31T00:00:00Z"
    )
    assert (len(tried.before), len(tried.after), tried.added, tried.removed) == (1, 2, 1, 0)
    with pytest.raises(NotFound, match="is a job, not a workflow"):
        await house.client.workflows.versions(
            (await house.client.jobs.create(name="j", command="true")).job_id
        )


# --- what would an edit do -------------------------------------------------------------------------------


async def test_what_if_changes_nothing_and_knows_daylight_saving(house: Served) -> None:
    await house.client.jobs.create(job_id="tried", command="true", cron="30 2 * * *", timezone="Europe/Paris")
    before = (await house.http.get("/v1/jobs/tried")).json()
    body = {"timezone": "UTC", "from": "2027-03-27T12:00:00Z", "to": "2027-03-29T12:00:00Z"}
    answer = await house.http.post("/v1/jobs/tried/what-if", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [(fire["time"], fire["note"]) for fire in found["before"]] == [
        ("2027-03-28T01:00:00Z", "dst_gap"),
        ("2027-03-29T00:30:00Z", None),
    ]
    assert [fire["local"] for fire in found["after"]] == [
        "2027-03-28T02:30:00+00:00",
        "2027-03-29T02:30:00+00:00",
    ]
    assert (found["added"], found["removed"], found["more"]) == (2, 2, False)
    assert (await house.http.get("/v1/jobs/tried")).json() == before
    assert len((await house.client.jobs.versions("tried")).items) == 1


async def test_what_if_marks_what_is_to_be_left_out(house: Served) -> None:
    await house.client.jobs.create(job_id="left-out", command="true", cron="0 3 * * *")
    skipped = await house.client.jobs.skip("left-out", note="holiday")

    async def noted() -> bool:
        found = await house.client.jobs.what_if("left-out", cron="0 */3 * * *")
        return all(
            [fire.note for fire in fires if fire.time == skipped.time] == ["skipped"]
            for fires in (found.before, found.after)
        )

    await eventually(noted, "the read models to know")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"cron": "61 * * * *"}, 422, "cron"),
        ({"timezone": "Mars/Olympus"}, 422, "timezone"),
        ({"colour": "blue"}, 422, "colour"),
        ({"dependencies": ["nobody"]}, 422, "dependencies"),
        ({"from": "2027-01-02T00:00:00Z", "to": "2027-01-01T00:00:00Z"}, 422, "to"),
        ({"from": "2027-01-01T00:00:00Z", "to": "2029-01-01T00:00:00Z"}, 422, "to"),
        ({"from": "2027-01-01T00:00:00"}, 422, "from"),
        ({"from": "0001-01-01T00:00:00Z"}, 422, "from"),
        ({"to": "9999-01-01T00:00:00Z"}, 422, "to"),
    ],
)
async def test_what_if_is_refused_as_an_edit_is(
    house: Served, body: dict[str, Any], status: int, field: str
) -> None:
    await house.http.post("/v1/jobs", json={"job_id": "wrong", "command": "true", "cron": "@daily"})
    answer = await house.http.post("/v1/jobs/wrong/what-if", json=body)
    assert answer.status_code == status, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_what_if_of_one_shots_and_of_those_at_rest(house: Served) -> None:
    far = "2090-01-01T00:00:00Z"
    await house.client.jobs.create(job_id="once", command="true", schedule_time=far)
    at_once = await house.client.jobs.what_if("once", schedule="now")
    assert (len(at_once.before), len(at_once.after), at_once.added) == (0, 1, 1)
    moved = await house.client.jobs.what_if(
        "once", schedule_time="2090-01-02T00:00:00Z", start="2089-12-31T00:00:00Z", end="2090-01-31T00:00:00Z"
    )
    assert (moved.added, moved.removed) == (1, 1)
    await house.client.jobs.pause("once")
    with pytest.raises(Conflict, match="paused"):
        await house.client.jobs.what_if("once", schedule="now")
    assert (await house.client.jobs.what_if("once", priority=3)).status == "PAUSED"
    with pytest.raises(VersionMismatch):
        await house.client.jobs.what_if("once", priority=3, if_match=1)
    await house.client.jobs.cancel("once")
    with pytest.raises(Conflict, match="cancelled"):
        await house.client.jobs.what_if("once", priority=3)


# --- declarations ----------------------------------------------------------------------------------------


DEFINED: list[dict[str, Any]] = [
    {"command": "a\nb\n", "cron": ["0 3 * * *", "@hourly"], "timezone": "Asia/Tokyo", "labels": {"set": "out"}},
    {"http": {"url": "http://127.0.0.1/", "headers": {"A": {"secret": "x"}}}, "every": 90, "max_retries": 0},
    {"handler": "send", "schedule_time": "2090-01-01T00:00:00.5Z", "payload": {"a": [1.5, None, "2026-01-01"]}},
    {"command": ["a", "b c"], "dependencies": ["out-0"], "timeout_seconds": 0, "retry": {"factor": 3}},
    {"command": "true", "cron": "H H * * *", "concurrency_key": "k", "catch_up": "none", "critical": True},
    {"nodes": [{"id": "a", "command": "true"}, {"id": "b", "command": "x", "depends_on": ["a"], "map": {"over": [1]}}]},
    {"nodes": [{"id": "a", "handler": "h", "max_retries": 2, "timeout": "5s"}], "cron": "@daily", "overlap": "allow"},
]  # fmt: skip


async def test_an_export_applied_changes_nothing(house: Served) -> None:
    for number, fields in enumerate(DEFINED):
        labels = {**fields.get("labels", {}), "exported": "all"}
        await house.client.jobs.create(**{"job_id": f"out-{number}", "name": "n", **fields, "labels": labels})
    await house.client.jobs.create(
        job_id="out-gone", command="true", cron="@daily", labels={"exported": "all"}
    )
    await house.client.jobs.cancel("out-gone")
    await house.client.jobs.create(job_id="out-now", command="true", labels={"exported": "all"})
    await house.client.jobs.pause("out-4")
    found = [one async for one in house.client.jobs.export(label=["exported=all"])]
    assert [(one.job_id, one.status, one.left_out) for one in found] == [
        (f"out-{number}", "PAUSED" if number == 4 else "SCHEDULED", "") for number in range(len(DEFINED))
    ]
    for one in found:
        assert one.definition is not None
        applied = await house.client.jobs.apply(definition=one.definition, mark={"applied": "default"})
        assert (applied.action, applied.differences) == ("unchanged", ()), one.definition
    written = await house.http.get("/v1/export?label=exported%3Dall", headers={"Accept": "application/json"})
    assert written.json() == json.loads(json.dumps([one.definition for one in found]))
    text = await house.http.get("/v1/export?label=exported%3Dall")
    assert text.headers["content-type"].startswith("application/yaml")
    assert "# out-4 is paused" in text.text
    assert len(yaml.safe_load(text.text)) == len(DEFINED)
    assert (
        await house.http.get("/v1/export?label=nobody", headers={"Accept": "application/json"})
    ).json() == []
    assert yaml.safe_load((await house.http.get("/v1/export?label=nobody")).text) == []


async def test_what_cannot_be_declared_is_named(house: Served) -> None:
    line = {"name": "many", "command": "true", "cron": "@daily", "labels": {"exported": "batch"}}
    made = await house.client.jobs.create_many([line, line])
    found = [one async for one in house.client.jobs.export(label=["exported=batch"])]
    assert [one.job_id for one in found] == sorted(str(one.job_id) for one in made)
    assert all(one.definition is None and "made for a batch" in one.left_out for one in found)


async def test_an_applied_label_is_not_put_on_what_is_as_declared(house: Served) -> None:
    declared: dict[str, Any] = {"job_id": "unmarked", "command": "true", "cron": "@daily"}
    await house.client.jobs.create(**declared)
    same = await house.client.jobs.apply(definition=declared, mark={"applied": "x"})
    assert same.action == "unchanged"
    changed = await house.client.jobs.apply(definition={**declared, "priority": 3}, mark={"applied": "x"})
    assert {one.field for one in changed.differences} == {"priority", "labels"}
    assert (await house.client.jobs.get("unmarked")).labels == {"applied": "x"}


# --- who may ---------------------------------------------------------------------------------------------


async def test_others_see_and_touch_none_of_it(house: Served) -> None:
    scopes = ["read", "submit", "operate"]
    async with (
        holding(house, scopes=scopes, namespace="acme") as acme,
        holding(house, scopes=scopes, namespace="zeta") as zeta,
        holding(house, scopes=["read"], namespace="acme") as viewer,
    ):
        body = {"job_id": "ours", "command": "true", "cron": "@daily", "labels": {"t": "1"}}
        version = (await acme.post("/v1/jobs", json=body)).json()["version"]
        await acme.post("/v1/jobs", json={"job_id": "next", "command": "true", "dependencies": ["ours"]})
        listed = (await acme.get("/v1/jobs/ours/versions")).json()
        assert [one["version"] for one in listed] == [version]
        for verb, path, sent in (
            ("GET", "/v1/jobs/ours/versions", None),
            ("GET", f"/v1/jobs/ours/versions/{version}", None),
            ("POST", "/v1/jobs/ours/rollback", {"version": version}),
            ("POST", "/v1/jobs/ours/what-if", {}),
        ):
            assert (await zeta.request(verb, path, json=sent)).status_code == 404, path
            assert (await house.http.request(verb, path, json=sent)).status_code == 404, path
        assert (await viewer.post("/v1/jobs/ours/rollback", json={"version": version})).status_code == 403
        assert (await viewer.post("/v1/jobs/ours/what-if", json={"priority": 1})).status_code == 200
        exported = (await acme.get("/v1/export", headers={"Accept": "application/json"})).json()
        assert [one["job_id"] for one in exported] == ["next", "ours"]
        assert exported[0]["dependencies"] == ["ours"]
        for one in exported:
            applied = await acme.post("/v1/jobs:apply", json={"definition": one})
            assert applied.json()["action"] == "unchanged"
        assert (await zeta.get("/v1/export", headers={"Accept": "application/json"})).json() == []
