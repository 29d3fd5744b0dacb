"""Workflows through the real program: outputs, branches, re-runs, maps, dependencies, and a scheduler that dies."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from integration.workflows.workflow_client import WorkflowClient, nodes, running_workflows, statuses

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkflowClient]:
    async with running_workflows(tmp_path_factory.mktemp("workflows") / "data") as running:
        yield running


async def test_a_diamond_hands_outputs_on(client: WorkflowClient) -> None:
    workflow = await client.define(
        workflow_id="diamond",
        name="diamond",
        nodes=[
            {"id": "fetch", "command": """echo '{"rows": 3, "name": "it'"'"'s $(id)"}'"""},
            {
                "id": "left",
                "command": 'printf "%s" {{ nodes.fetch.output.name }}; echo; echo "[{{ nodes.fetch.output.rows }}]"',
                "depends_on": ["fetch"],
            },
            {
                "id": "right",
                "command": ["sh", "-c", "cat"],
                "payload": {"rows": "{{ nodes.fetch.output.rows }}", "day": "{{ parameters.day }}"},
                "depends_on": ["fetch"],
            },
            {"id": "join", "command": "echo true", "depends_on": ["left", "right"]},
        ],
    )
    run_id = await client.start(workflow, day="monday")
    wave = await client.ended(run_id)
    assert wave["status"] == "SUCCESS"
    assert (wave["workflow_id"], wave["epoch"]) == ("diamond", 1)
    found = nodes(wave)
    assert found["left"]["output"] == [3]
    assert found["right"]["output"] == {"rows": 3, "day": "monday"}
    assert found["join"]["run_id"] == f"{run_id}~join"
    assert sorted(map(tuple, wave["edges"])) == [
        ("fetch", "left"),
        ("fetch", "right"),
        ("left", "join"),
        ("right", "join"),
    ]
    log = (await client.http.get(f"/v1/runs/{run_id}~left/log")).text
    assert "it's $(id)" in log
    second = await client.ended(await client.start(workflow, day="tuesday"))
    assert second["epoch"] == 2
    waves = (await client.http.get("/v1/workflows/diamond/runs")).json()
    assert [each["epoch"] for each in waves] == [2, 1]


async def test_a_condition_chooses_a_branch(client: WorkflowClient) -> None:
    workflow = await client.define(
        name="branch",
        nodes=[
            {"id": "check", "command": """echo '{"large": true}'"""},
            {
                "id": "small",
                "command": "true",
                "depends_on": ["check"],
                "condition": "not nodes.check.output.large",
            },
            {
                "id": "large",
                "command": "true",
                "depends_on": ["check"],
                "condition": "{{ nodes.check.output.large }}",
            },
            {
                "id": "after",
                "command": "true",
                "depends_on": ["small", "large"],
                "trigger_rule": "none_failed_min_one_success",
            },
            {"id": "strict", "command": "true", "depends_on": ["small"]},
        ],
    )
    wave = await client.ended(await client.start(workflow))
    assert wave["status"] == "SUCCESS"
    assert statuses(wave) == {
        "check": "SUCCESS",
        "small": "SKIPPED",
        "large": "SUCCESS",
        "after": "SUCCESS",
        "strict": "SKIPPED",
    }


async def test_a_failed_node_is_run_again_with_what_comes_after_it(
    client: WorkflowClient, tmp_path: Path
) -> None:
    mark, count = tmp_path / "mark", tmp_path / "count"
    workflow = await client.define(
        name="broken",
        nodes=[
            {"id": "a", "command": f"echo x >> {count}; echo 41"},
            {
                "id": "b",
                "command": f"test -e {mark} && echo {{{{ nodes.a.output }}}}",
                "depends_on": ["a"],
                "max_retries": 0,
            },
            {"id": "c", "command": "echo {{ nodes.b.output }}", "depends_on": ["b"]},
        ],
    )
    run_id = await client.start(workflow)
    wave = await client.ended(run_id)
    assert (wave["status"], statuses(wave)) == ("FAILED", {"a": "SUCCESS", "b": "FAILED", "c": "SKIPPED"})
    assert "'b' failed" in nodes(wave)["c"]["reason"]
    mark.touch()
    answer = await client.http.post(f"/v1/workflow-runs/{run_id}/rerun", json={})
    assert answer.status_code in (200, 202), answer.text
    again = await client.ended(run_id)
    assert (again["status"], again["epoch"]) == ("SUCCESS", wave["epoch"])
    found = nodes(again)
    assert (found["b"]["attempt_number"], found["c"]["output"]) == (2, 41)
    assert count.read_text() == "x\n", "what had succeeded did not run again"
    await client.http.post(f"/v1/workflow-runs/{run_id}/rerun", json={"from": ["a"]})
    await client.ended(run_id)
    assert count.read_text() == "x\nx\n"


async def test_a_node_marked_by_hand_lets_the_wave_go_on(client: WorkflowClient) -> None:
    workflow = await client.define(
        name="stuck",
        nodes=[
            {"id": "bad", "command": "exit 1"},
            {"id": "next", "command": "echo {{ nodes.bad.output }}", "depends_on": ["bad"]},
        ],
    )
    run_id = await client.start(workflow)
    assert (await client.ended(run_id))["status"] == "FAILED"
    answer = await client.http.post(
        f"/v1/workflow-runs/{run_id}/nodes/bad/mark",
        json={"status": "SUCCESS", "output": 7, "note": "by hand"},
    )
    assert answer.status_code == 200, answer.text
    wave = await client.ended(run_id)
    assert (wave["status"], nodes(wave)["next"]["output"]) == ("SUCCESS", 7)
    assert "by hand" in nodes(wave)["bad"]["reason"]


async def test_maps_over_an_output_and_over_lines(client: WorkflowClient) -> None:
    lines = b"".join(b"line-%d\n" % number for number in range(25))
    pushed = await client.http.post("/v1/artifacts", content=lines)
    assert pushed.status_code in (200, 201), pushed.text
    artifact = "sha256:" + hashlib.sha256(lines).hexdigest()
    workflow = await client.define(
        name="mapped",
        nodes=[
            {"id": "list", "command": "echo '[1, 2, 3]'"},
            {
                "id": "each",
                "command": "echo $((WATERCLOCK_PAYLOAD * 10 + WATERCLOCK_INDEX))",
                "depends_on": ["list"],
                "map": {"over": {"from": "list"}},
            },
            {"id": "sum", "command": "echo '{{ nodes.each.output.results }}'", "depends_on": ["each"]},
            {
                "id": "lines",
                "command": 'test "{{ item }}" != line-7',
                "map": {"over": {"lines": artifact}, "max_concurrency": 5, "tolerated_failures": "5%"},
            },
        ],
    )
    wave = await client.ended(await client.start(workflow))
    found = nodes(wave)
    assert wave["status"] == "SUCCESS"
    assert found["each"]["map"] == {"total": 3, "done": 3, "failed": 0}
    assert found["sum"]["output"] == [10, 21, 32]
    assert found["lines"]["map"] == {"total": 25, "done": 24, "failed": 1}


async def test_a_job_fans_out_and_ends_once(client: WorkflowClient) -> None:
    created = await client.http.post(
        "/v1/jobs",
        json={
            "job_id": "fan",
            "name": "fan",
            "command": "exit {{ item }}",
            "fan_out": {"over": [0, 0, 1, 0], "tolerated_failures": 0},
        },
    )
    assert created.status_code == 201, created.text
    [run] = await client.runs("fan", 1)
    assert (run["status"], run["reason"]) == ("FAILED", "1 of 4 members failed")
    assert run["output"] == {"total": 4, "done": 3, "failed": 1}


async def test_waves_asked_for_by_hand_do_not_mix(client: WorkflowClient) -> None:
    workflow = await client.define(
        name="in turn",
        nodes=[
            {"id": "first", "command": "sleep 0.3"},
            {"id": "last", "command": "echo {{ parameters.day }}", "depends_on": ["first"]},
            {"id": "alarm", "command": "true", "depends_on": ["last"], "trigger_rule": "any_failed"},
        ],
    )
    started = [await client.start(workflow, day=day) for day in (1, 2, 3)]
    waiting = await client.workflow_run(started[2])
    assert (waiting["status"], waiting["epoch"]) == ("WAITING", 3)
    assert waiting["reason"].startswith(f"overlap: waits for {workflow}@")
    await client.http.post(f"/v1/workflow-runs/{started[2]}/cancel")
    one, two, three = [await client.ended(run_id) for run_id in started]
    assert [nodes(wave)["last"]["output"] for wave in (one, two)] == [1, 2]
    assert [wave["epoch"] for wave in (one, two, three)] == [1, 2, 3]
    assert one["end_time"] <= two["start_time"]
    assert statuses(two)["alarm"] == "SKIPPED"
    assert (three["status"], set(statuses(three).values())) == ("CANCELLED", {"CANCELLED"})


async def test_a_wave_is_cancelled_whole(client: WorkflowClient) -> None:
    workflow = await client.define(
        name="long",
        nodes=[
            {"id": "sleeps", "command": "sleep 60"},
            {"id": "cleanup", "command": "true", "depends_on": ["sleeps"], "trigger_rule": "all_done"},
        ],
    )
    run_id = await client.start(workflow)
    async with asyncio.timeout(20):
        while statuses(await client.workflow_run(run_id))["sleeps"] != "RUNNING":
            await asyncio.sleep(0.05)
    waiting = nodes(await client.workflow_run(run_id))["cleanup"]
    assert waiting["reason"] == "all_done: waits for sleeps (RUNNING)"
    why = await client.http.get(f"/v1/runs/{run_id}~cleanup/why")
    assert (why.status_code, "waits for sleeps" in why.text) == (200, True)
    assert (await client.http.post(f"/v1/workflow-runs/{run_id}/cancel")).status_code == 200
    wave = await client.ended(run_id)
    assert (wave["status"], statuses(wave)) == ("CANCELLED", {"sleeps": "CANCELLED", "cleanup": "CANCELLED"})


async def test_a_job_runs_when_all_it_waits_for_have_completed(client: WorkflowClient) -> None:
    for job_id in ("first", "second"):
        body = {"job_id": job_id, "name": job_id, "command": "true", "schedule": "0 0 1 1 *"}
        assert (await client.http.post("/v1/jobs", json=body)).status_code == 201
    after = {"job_id": "after", "name": "after", "command": "true", "dependencies": ["first", "second"]}
    assert (await client.http.post("/v1/jobs", json=after)).status_code == 201
    await client.http.post("/v1/jobs/first/runNow")
    await client.runs("first", 1)
    await client.http.post("/v1/jobs/first/runNow")
    await client.runs("first", 2)
    assert (await client.http.get("/v1/jobs/after/runs")).json() == []
    await client.http.post("/v1/jobs/second/runNow")
    [run] = await client.runs("after", 1)
    assert run["status"] == "SUCCESS"
    cycle = await client.http.patch("/v1/jobs/first", json={"dependencies": ["after"]})
    assert cycle.status_code == 422
    assert "first -> after -> first" in cycle.text
    missing = await client.http.patch("/v1/jobs/first", json={"dependencies": ["nobody"]})
    assert (missing.status_code, "nobody" in missing.text) == (422, True)


async def test_a_job_defined_after_what_it_waits_for_has_completed_runs(client: WorkflowClient) -> None:
    for job_id, dependencies in (("early", []), ("late", ["early"]), ("last", ["early", "late"])):
        body = {"job_id": job_id, "name": job_id, "command": "true", "dependencies": dependencies}
        assert (await client.http.post("/v1/jobs", json=body)).status_code == 201
        [run] = await client.runs(job_id, 1)
        assert run["status"] == "SUCCESS"


async def test_of_two_edits_that_close_a_cycle_together_one_is_refused(client: WorkflowClient) -> None:
    for round in range(5):
        one, other = f"left{round}", f"right{round}"
        for job_id in (one, other):
            body = {"job_id": job_id, "name": job_id, "command": "true", "schedule": "0 0 1 1 *"}
            assert (await client.http.post("/v1/jobs", json=body)).status_code == 201
        answers = await asyncio.gather(
            client.http.patch(f"/v1/jobs/{one}", json={"dependencies": [other]}),
            client.http.patch(f"/v1/jobs/{other}", json={"dependencies": [one]}),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 422]


async def test_a_wave_survives_the_death_of_its_scheduler(client: WorkflowClient, tmp_path: Path) -> None:
    log = tmp_path / "ran"
    chain = [
        {
            "id": f"n{place}",
            "command": f"echo n{place} >> {log}; sleep 0.2",
            "depends_on": [f"n{place - 1}"] if place else [],
        }
        for place in range(6)
    ]
    wide = {"id": "wide", "command": f"echo w >> {log}", "map": {"over": {"range": 20}, "max_concurrency": 4}}
    workflow = await client.define(name="survivor", nodes=[*chain, wide])
    run_id = await client.start(workflow)
    for place in (1, 3):
        async with asyncio.timeout(30):
            while statuses(await client.workflow_run(run_id))[f"n{place}"] == "WAITING":
                await asyncio.sleep(0.05)
        client.kill_scheduler()
    wave = await client.ended(run_id, within=60)
    assert wave["status"] == "SUCCESS"
    assert sorted(log.read_text().split()) == sorted([f"n{place}" for place in range(6)] + ["w"] * 20)


async def test_the_views_tell_the_same(client: WorkflowClient) -> None:
    url = json.loads((client.data / "connection.json").read_text())["database"]
    database = await asyncpg.connect(url)
    try:
        row = await database.fetchrow(
            "SELECT status, epoch, parameters FROM waterclock.workflow_runs"
            " WHERE workflow_id = 'diamond' AND epoch = 2"
        )
        assert row is not None
        assert (row["status"], json.loads(row["parameters"])) == ("SUCCESS", {"day": "tuesday"})
        found = await database.fetch(
            "SELECT id, status FROM waterclock.workflow_nodes WHERE workflow_id = 'diamond' AND epoch = 2"
        )
        assert {each["id"]: each["status"] for each in found} == dict.fromkeys(
            ("fetch", "left", "right", "join"), "SUCCESS"
        )
    finally:
        await database.close()
