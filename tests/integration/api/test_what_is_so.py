"""Every door says what is so now: work that nobody serves, what a job waits for, a fire left out, a run that lives."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from support.waiting import eventually
from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.http import fleet_gauges
from waterclock.api.http.fleet_gauges import Speaker
from waterclock.api.queries import runs
from waterclock.proto import names
from waterclock.proto.answers import Run
from waterclock.proto.codec import encode
from waterclock.proto.queries import RunRef

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def submit(house: Served, **body: Any) -> str:
    answer = await house.http.post("/v1/jobs", json={"max_retries": 0, **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def sql(house: Served, query: str, *arguments: Any) -> list[dict[str, Any]]:
    assert house.settings.database_url is not None
    connection = await asyncpg.connect(house.settings.database_url)
    try:
        return [dict(row) for row in await connection.fetch(query, *arguments)]
    finally:
        await connection.close()


async def run_of(house: Served, job_id: str, *statuses: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        run = (await house.http.get(f"/v1/jobs/{job_id}/status")).json()["latest_run"]
        return run if run is not None and run["status"] in statuses else None

    return await eventually(found, f"{job_id} to be {statuses}", 40)


async def ended_command(data: Path, *words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "waterclock.api.cli",
        *words,
        "--data",
        str(data),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def command(data: Path, *words: str) -> str:
    return (await ended_command(data, *words))[1]


@pytest.mark.parametrize(
    ("body", "queue", "missing"),
    [
        ({"command": "true", "queue": "gpu"}, ("gpu", "", "light"), "no executor serves queue gpu"),
        (
            {"job_type": "nobody_has_it"},
            ("default", "nobody_has_it", "light"),
            "no executor of queue default serves handler nobody_has_it",
        ),
    ],
)
async def test_work_that_nobody_serves_is_seen_through_every_door(
    house: Served, data: Path, body: dict[str, Any], queue: tuple[str, str, str], missing: str
) -> None:
    name, handler, tier = queue
    job_id = await submit(house, name=f"unserved {missing}", **body)
    run = await run_of(house, job_id, "QUEUED")

    async def listed() -> dict[str, Any] | None:
        items = (await house.http.get("/v1/queues")).json()["items"]
        found = [
            q
            for q in items
            if (q["queue"], q["handler"] or "", q["tier"]) == queue and q["waiting"] + q["due"]
        ]
        return found[0] if found else None

    assert (await eventually(listed, f"queue {name}"))["missing"] == missing
    told = (await house.http.get("/v1/status")).json()
    [check] = [check for check in told["checks"] if check["name"] == "queues"]
    assert (told["ok"], check["ok"], missing in check["detail"]) == (False, False, True)
    why = (await house.http.get(f"/v1/runs/{run['run_id']}/why")).json()
    assert (why["missing"], why["answer"].endswith(f"; {missing}")) == (missing, True)
    assert missing in await command(data, "queues")
    assert name in await command(data, "top", "--once")

    async def in_sql() -> dict[str, Any] | None:
        rows = await sql(
            house,
            "SELECT * FROM waterclock.queues WHERE (queue, handler, tier) = ($1, $2, $3) AND waiting + due > 0",
            *queue,
        )
        return rows[0] if rows else None

    row = await eventually(in_sql, "the queue in SQL")
    assert (row["missing"], row["oldest_time"] is not None) == (missing, True)
    page = (await house.http.get("/metrics")).text
    labels = f'{{handler="{handler}",priority="0",queue="{name}",tier="{tier}"}}'
    assert f"waterclock_queue_waiting{labels} 1.0" in page
    assert f"waterclock_queue_unserved{labels} 1.0" in page
    assert (await house.http.delete(f"/v1/jobs/{job_id}")).status_code == 200
    await eventually(listed, f"queue {name} to be empty", wanted=lambda found: found is None)


async def test_a_job_that_waits_to_run_at_once_is_due_in_sql_as_in_rest(house: Served) -> None:
    """It has no run as long as there is no room among what nobody serves."""
    jobs = [
        {"job_id": f"crowd-{number}", "name": "crowd", "command": "true", "queue": "nowhere"}
        for number in range(600)
    ]
    answer = await house.http.post("/v1/jobs:batch", content=json.dumps(jobs))
    assert answer.status_code == 200, answer.text

    async def without_run() -> dict[str, Any] | None:
        rows = await sql(
            house,
            "SELECT job_id, next_run_at FROM waterclock.jobs WHERE job_id LIKE 'crowd-%' AND last_run IS NULL"
            " AND next_run_at IS NOT NULL ORDER BY job_id LIMIT 1",
        )
        with_run = await sql(
            house, "SELECT count(*) AS n FROM waterclock.job_runs WHERE job_id LIKE 'crowd-%'"
        )
        return rows[0] if rows and with_run[0]["n"] > 50 else None

    async def agreed() -> bool:
        """It may be decided while we look."""
        row = await eventually(without_run, "a job that has no room", 40)
        job = (await house.http.get(f"/v1/jobs/{row['job_id']}")).json()
        page = (await house.http.get("/v1/jobs", params={"q": row["job_id"]})).json()["items"]
        [listed] = [item for item in page if item["job_id"] == row["job_id"]]
        due = row["next_run_at"].isoformat().replace("+00:00", "Z")
        return bool(due == job["next_run_at"] == listed["next_run_at"])

    await eventually(agreed, "REST, listing and SQL to agree on when it is due")
    queued = await sql(
        house,
        "SELECT next_run_at FROM waterclock.jobs WHERE job_id LIKE 'crowd-%' AND last_run IS NOT NULL LIMIT 1",
    )
    assert queued[0]["next_run_at"] is None

    async def due() -> bool:
        rows = await sql(house, "SELECT sum(due) AS due FROM waterclock.queues WHERE queue = 'nowhere'")
        return bool(rows[0]["due"])

    await eventually(due, "what has no room in SQL")
    for start in range(0, len(jobs), 50):
        ids = [body["job_id"] for body in jobs[start : start + 50]]
        await asyncio.gather(*(house.http.delete(f"/v1/jobs/{job_id}") for job_id in ids))


async def test_a_job_says_which_of_those_it_waits_for_have_completed(house: Served) -> None:
    yearly = {"command": "true", "schedule": "0 0 1 1 *", "max_retries": 0}
    for name in ("dep-b", "dep-c"):
        await submit(house, job_id=name, name=name, **yearly)
    await submit(house, job_id="dep-after", name="after", command="true", dependencies=["dep-b", "dep-c"])

    async def why() -> dict[str, Any]:
        found: dict[str, Any] = (await house.http.get("/v1/jobs/dep-after/why")).json()
        return found

    first = await eventually(why, "its owner to know", wanted=lambda found: len(found["waits_for"]) == 2)
    assert [each["completed"] for each in first["waits_for"]] == [False, False]
    run_id = (await house.http.post("/v1/jobs/dep-b/runNow")).json()["run_id"]
    told = await eventually(why, "dep-b to be done", wanted=lambda f: f["waits_for"][0]["completed"])
    done, lacking = told["waits_for"]
    assert (done["job_id"], done["run_id"], done["at"] is not None) == ("dep-b", run_id, True)
    assert (lacking["job_id"], lacking["completed"]) == ("dep-c", False)
    assert f"dep-b is done ({run_id}" in told["answer"]
    assert "dep-c is missing" in told["answer"]
    await house.http.post("/v1/jobs/dep-c/pause")

    async def paused() -> bool:
        return "dep-c is missing (the job is PAUSED)" in (await why())["answer"]

    await eventually(paused, "why to say that dep-c is paused")
    for name in ("dep-after", "dep-b", "dep-c"):
        await house.http.delete(f"/v1/jobs/{name}")


async def test_a_run_that_waits_for_a_dependency_says_so_too(house: Served) -> None:
    await submit(house, job_id="dep-x", name="x", command="true", schedule="0 0 1 1 *")
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    await submit(
        house, job_id="dep-timed", name="t", command="true", schedule_time=soon, dependencies=["dep-x"]
    )
    run = await run_of(house, "dep-timed", "WAITING")
    why = (await house.http.get(f"/v1/runs/{run['run_id']}/why")).json()
    assert [each["job_id"] for each in why["waits_for"]] == ["dep-x"]
    assert "dep-x is missing" in why["answer"]
    for name in ("dep-timed", "dep-x"):
        await house.http.delete(f"/v1/jobs/{name}")


async def test_a_workflow_without_a_schedule_does_not_wait_for_dependencies(house: Served) -> None:
    body = {"workflow_id": "on-call", "name": "on call", "nodes": [{"id": "a", "command": "true"}]}
    assert (await house.http.post("/v1/workflows", json=body)).status_code == 201
    why = (await house.http.get("/v1/jobs/on-call/why")).json()
    assert (why["reason"], why["waits_for"]) == ("no_schedule", [])
    assert "depend" not in why["answer"]


async def test_a_fire_that_is_left_out_is_marked_and_not_the_next_run(house: Served, data: Path) -> None:
    await submit(house, job_id="leap", name="leap", command="true", schedule="every 1h")
    fires = (await house.http.get("/v1/jobs/leap/next", params={"n": 3})).json()["fires"]
    left_out = (await house.http.post("/v1/jobs/leap/skip", json={})).json()
    assert (left_out["time"], left_out["note"]) == (fires[0]["time"], "skipped")

    async def marked() -> list[dict[str, Any]] | None:
        """At once, unless the projector, which starts with the house, has not shown itself yet."""
        shown: list[dict[str, Any]] = (await house.http.get("/v1/jobs/leap/next", params={"n": 3})).json()[
            "fires"
        ]
        return shown if [fire["note"] for fire in shown] == ["skipped", None, None] else None

    shown = await eventually(marked, "the fire to be marked")
    assert [fire["time"] for fire in shown] == [fire["time"] for fire in fires]
    second = datetime.fromisoformat(fires[1]["time"])
    job = (await house.http.get("/v1/jobs/leap")).json()
    assert datetime.fromisoformat(job["next_run_at"]) == second
    [listed] = (await house.http.get("/v1/jobs", params={"name": "leap"})).json()["items"]
    assert listed["next_run_at"] == job["next_run_at"]
    [row] = await sql(house, "SELECT next_run_at, skipped FROM waterclock.jobs WHERE job_id = 'leap'")
    assert (row["next_run_at"], row["skipped"]) == (second, [datetime.fromisoformat(fires[0]["time"])])
    assert (await house.client.jobs.get("leap")).next_run_at == second
    assert "skipped" in await command(data, "next", "leap")
    upcoming = await sql(house, "SELECT next_run_at FROM waterclock.upcoming WHERE job_id = 'leap'")
    assert upcoming[0]["next_run_at"] == second
    for hours in (1, 3):  # also where only what is left out is in the range
        end = (datetime.fromisoformat(fires[0]["time"]) + timedelta(hours=hours, seconds=-1)).isoformat()
        coming = (await house.http.get("/v1/upcoming", params={"job": "leap", "to": end})).json()["items"]
        assert [fire["note"] for fire in coming] == ["skipped", None, None][:hours]
        assert [fire["time"] for fire in coming] == [fire["time"] for fire in fires][:hours]


async def test_once_it_is_over_nothing_is_marked_any_more(house: Served) -> None:
    await submit(house, job_id="brief", name="brief", command="true", schedule="every 2s", overlap="allow")
    skipped = (await house.http.post("/v1/jobs/brief/skip", json={})).json()["time"]

    async def over() -> bool:
        rows = await sql(
            house, "SELECT skipped, last_fire_at FROM waterclock.job_state WHERE job_id = 'brief'"
        )
        last = rows[0]["last_fire_at"] if rows else None
        return last is not None and last >= datetime.fromisoformat(skipped) and rows[0]["skipped"] == []

    await eventually(over, "the mark to be gone")
    fires = (await house.http.get("/v1/jobs/brief/next")).json()["fires"]
    assert {fire["note"] for fire in fires} == {None}
    await house.http.delete("/v1/jobs/brief")


async def test_with_a_limit_on_fires_one_left_out_does_not_count(house: Served) -> None:
    await submit(house, job_id="thrice", name="thrice", command="true", schedule="every 1h", max_fires=2)
    await house.http.post("/v1/jobs/thrice/skip", json={})

    async def notes() -> list[str | None]:
        fires = (await house.http.get("/v1/jobs/thrice/next")).json()["fires"]
        return [fire["note"] for fire in fires]

    await eventually(notes, "the fire to be marked", wanted=lambda found: found == ["skipped", None, None])


async def test_nothing_of_a_job_that_runs_at_once_can_be_left_out(house: Served) -> None:
    await submit(house, job_id="at-once", name="at once", command="true")
    assert (await house.http.post("/v1/jobs/at-once/skip", json={})).status_code == 409


async def test_a_run_that_lives_is_modified_with_every_heartbeat(house: Served) -> None:
    await submit(house, job_id="lives", name="lives", command="sleep 60")
    first = await run_of(house, "lives", "RUNNING")
    run_id = first["run_id"]

    async def moved() -> bool:
        run = (await house.http.get(f"/v1/runs/{run_id}")).json()
        [row] = await sql(
            house, "SELECT modified_time, start_time FROM waterclock.job_runs WHERE run_id = $1", run_id
        )
        shown = datetime.fromisoformat(run["modified_time"])
        began = row["start_time"] + timedelta(seconds=2)
        return bool(shown > began and row["modified_time"] > began)

    await eventually(moved, "the run to be modified")
    [row] = await sql(
        house,
        "SELECT (last_run ->> 'modified_time')::timestamptz AS at FROM waterclock.jobs WHERE job_id = 'lives'",
    )
    assert row["at"] > datetime.fromisoformat(first["start_time"]) + timedelta(seconds=2)
    await house.http.delete("/v1/jobs/lives")
    ended = await run_of(house, "lives", "CANCELLED")
    assert ended["modified_time"] == ended["end_time"]


async def test_the_service_counts_errors_and_the_time_of_calls(house: Served) -> None:
    async def statistics(name: str) -> dict[str, Any]:
        answer = await house.nats.request("$SRV.STATS.waterclock", b"")
        [found] = [e for e in json.loads(answer.data)["endpoints"] if e["subject"].endswith(name)]
        assert isinstance(found, dict)
        return found

    before = await statistics("jobs.get")
    with pytest.raises(Exception, match="there is no job"):
        await house.client.jobs.get("nobody-knows-it")
    after = await eventually(
        lambda: statistics("jobs.get"), wanted=lambda now: now["num_errors"] == before["num_errors"] + 1
    )
    assert after["last_error"].startswith("404: there is no job")
    assert after["processing_time"] > before["processing_time"]
    follow = await statistics("audit.run")
    await house.client.audit.run()
    ended = await eventually(
        lambda: statistics("audit.run"),
        wanted=lambda now: now["data"]["answered"] == follow["data"]["answered"] + 1,
    )
    took = ended["processing_time"] - follow["processing_time"]
    assert took > 1_000_000, "a stream lasts longer than it takes to begin it"
    assert ended["average_processing_time"] <= ended["processing_time"]


async def test_of_several_apis_one_speaks_for_the_fleet(house: Served) -> None:
    control, key = house.app.control, names.member_key("api", "fleet-gauges")

    async def shown() -> int:
        return (await house.http.get("/metrics")).text.count('waterclock_executors{state="ACTIVE"}')

    assert await eventually(shown, "this api to speak") == 1
    other = Speaker(speaks="another", place="elsewhere", pid=1)
    await control.put(key, encode(other), ttl=60)
    assert await shown() == 0
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    died = structs.replace(other, place=fleet_gauges._place(), pid=gone.pid)
    await control.put(key, encode(died), ttl=60)
    assert await shown() == 1, "one that was killed is followed at once by who runs in its place"
    await control.put(key, encode(other), ttl=1)
    await eventually(shown, "the other one not to be read any more")
    await fleet_gauges.fall_silent(control, house.app.instance)
    assert await control.get(key) is None


async def test_all_doors_agree_and_one_that_does_not_is_named(house: Served, data: Path) -> None:
    job_id = await submit(house, name="agreed", command="true")
    run = await run_of(house, job_id, "SUCCESS")
    result = (await house.http.get("/v1/consistency", params={"all": "true"})).text.splitlines()[-1]
    assert json.loads(result)["disagreements"] == []
    assert json.loads(result)["ok"], result
    await sql(house, "UPDATE waterclock.run_state SET status = 'FAILED' WHERE run_id = $1", run["run_id"])
    found = json.loads((await house.http.get("/v1/consistency")).text.splitlines()[-1])
    assert not found["ok"]
    told = {(each["about"], each["field"], *each["doors"]): each["says"] for each in found["disagreements"]}
    assert told[run["run_id"], "status", "log", "SQL"] == ["SUCCESS", "FAILED"]
    assert (run["run_id"], "status", "SQL", "why") in told
    assert not (await house.client.system.consistency()).ok
    [diagnosis] = [
        finding
        for finding in (await house.http.get("/v1/doctor")).json()["findings"]
        if finding["check"] == "consistency"
        and "status is SUCCESS by log, FAILED by SQL" in finding["detail"]
    ]
    assert diagnosis["verdict"] == "problem"
    code, said = await ended_command(data, "doctor", "--all")
    assert (code, run["run_id"] in said) == (1, True)
    await sql(house, "UPDATE waterclock.run_state SET status = 'SUCCESS' WHERE run_id = $1", run["run_id"])
    await sql(house, "DELETE FROM waterclock.run_state WHERE run_id = $1", run["run_id"])
    gone = json.loads((await house.http.get("/v1/consistency", params={"all": "true"})).text.splitlines()[-1])
    assert [(each["about"], each["field"]) for each in gone["disagreements"]] == [
        (run["run_id"], "existence")
    ]


async def test_a_run_that_goes_while_it_is_compared_is_no_disagreement_and_ends_nothing(
    house: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that is asked for, once it is known that SQL has it. Not all are: there may be many."""
    await run_of(house, await submit(house, command="true"), "SUCCESS")
    get, gone = runs.get, list[str]()

    async def get_once_it_is_gone(app: Application, request: RunRef, caller: Caller) -> Run:
        if not gone:
            gone.append(request.run_id)
            await sql(house, "DELETE FROM waterclock.run_state WHERE run_id = $1", request.run_id)
        return await get(app, request, caller)

    async def compared() -> list[str] | None:
        """None: the read models were too far behind to compare anything."""
        lines = (await house.http.get("/v1/consistency", params={"all": "true"})).text.splitlines()
        return lines if gone else None

    monkeypatch.setattr(runs, "get", get_once_it_is_gone)
    lines = await eventually(compared, "something to be compared")
    assert gone[0] not in [each["about"] for each in json.loads(lines[-1])["disagreements"]]
