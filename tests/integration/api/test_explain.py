"""Why and audit over REST and the client, on a real log; and on copies of it with a fault planted."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from servers.backend import own_nats
from support.waiting import eventually
from waterclock.api.explain import why as why_module
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import Frame, RunEvent, RunQueued, RunsMissed, RunSucceeded

from .conftest import Served, serving, settings_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

Message = tuple[str, bytes]


async def ended(house: Served, job_id: str, count: int = 1) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 20
    while True:
        answer = await house.http.get(f"/v1/jobs/{job_id}/runs")
        if answer.status_code == 200:
            done = [run for run in answer.json() if run["status"] in ("SUCCESS", "FAILED")]
            if len(done) >= count:
                return done
        assert time.monotonic() < deadline, answer.text
        await asyncio.sleep(0.05)


async def audit(house: Served, **query: str) -> dict[str, Any]:
    answer = await house.http.get("/v1/audit", params=query)
    assert answer.status_code == 200
    report: dict[str, Any] = json.loads(answer.text.strip().splitlines()[-1])
    assert report["read"] == 1.0
    return report


async def test_a_run_is_explained_from_definition_to_outcome(house: Served) -> None:
    body = {"job_id": "explained", "name": "explained", "command": "sleep 0.2; exit 3", "max_retries": 1}
    await house.http.post("/v1/jobs", json=body | {"retry": {"initial_seconds": 0.2, "jitter": False}})
    [run] = await ended(house, "explained")
    why = (await house.http.get(f"/v1/runs/{run['run_id']}/why")).json()
    assert why["reason"] == "ran"
    assert "it is FAILED: attempt 2 failed" in why["answer"]
    assert why["definition"]["version"] > 0
    assert why["owner"].startswith("scheduler-")
    assert why["executors"] == [run["executor_id"]]
    kinds = [delay["kind"] for delay in why["delays"]]
    assert [kind for kind in kinds if kind in ("execution", "backoff")] == [
        "execution",
        "backoff",
        "execution",
    ]
    assert sum(delay["share"] for delay in why["delays"]) == pytest.approx(1, abs=0.01)
    events = (await house.http.get(f"/v1/runs/{run['run_id']}/events")).json()["items"]
    assert len(events) == len(why["steps"]) - 1
    assert [change.type for change in await house.client.runs.events(run["run_id"])] == [
        event["type"] for event in events
    ]
    assert (await house.client.runs.why(run["run_id"])).answer == why["answer"]
    assert (await house.client.jobs.why("explained")).run_id == run["run_id"]
    missing = await house.http.get("/v1/runs/explained@20200101T000000Z/why")
    assert missing.status_code == 404


async def test_what_waits_for_a_slot_is_pending_and_explained(
    house: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is decided, and when it was decided long after it was due."""
    monkeypatch.setattr(why_module, "_AFTER", 0)
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    jobs = [
        {"job_id": f"unserved-{number}", "name": "u", "command": "true", "queue": "unserved"}
        | ({"schedule_time": soon} if number % 2 else {})
        for number in range(800)
    ]
    answer = await house.http.post("/v1/jobs:batch", content=json.dumps(jobs))
    assert answer.status_code == 200, answer.text

    async def undecided() -> list[str] | None:
        """Jobs without a run, once all that has room has one."""
        held = (await house.http.get("/v1/partitions")).json()["items"]
        runs = {job["job_id"]: await house.http.get(f"/v1/jobs/{job['job_id']}/runs") for job in jobs[-20:]}
        waits = [job_id for job_id, found in runs.items() if found.json() == []]
        is_even = {int(job_id.rpartition("-")[2]) % 2 for job_id in waits} == {0, 1}
        return waits if is_even and sum(each["backlog"] for each in held) > 100 else None

    waits = await eventually(undecided, "jobs that wait for a slot")
    report = await audit(house)
    assert (report["findings"], report["pending"] >= len(waits)) == ([], True)
    queues = (await house.http.get("/v1/queues")).json()["items"]
    assert sum(each["due"] for each in queues if each["queue"] == "unserved") > 100
    status = (await house.http.get("/v1/status")).json()
    assert status["load"]["waits_since"] is not None
    [told] = [check["detail"] for check in status["checks"] if check["name"] == "queues"]
    assert "no executor serves queue unserved" in told
    for job_id in waits:
        why = (await house.http.get(f"/v1/jobs/{job_id}/why")).json()
        assert (why["reason"], "not decided yet: it waits for a slot" in why["answer"]) == (
            "undecided",
            True,
        ), why
        assert why["answer"].endswith("; no executor serves queue unserved")
    await asyncio.gather(*(house.http.delete(f"/v1/jobs/{job['job_id']}") for job in jobs))

    async def all_ended() -> bool:
        held = (await house.http.get("/v1/partitions")).json()["items"]
        return not any(each["backlog"] + each["active_runs"] for each in held)

    await eventually(all_ended, "the cancelled ones to be decided")
    for job_id in waits:
        why = (await house.http.get(f"/v1/jobs/{job_id}/why")).json()
        assert (why["reason"], why["run_id"] is not None) == ("cancelled", True), why
    assert (await audit(house))["findings"] == []


async def test_moments_without_a_run_are_explained(house: Served) -> None:
    body = {"job_id": "paused-one", "name": "p", "schedule": "0 0 1 1 *", "command": "true"}
    await house.http.post("/v1/jobs", json=body)
    path = "/v1/jobs/paused-one"

    async def why(at: datetime) -> dict[str, Any]:
        answer = await house.http.get(f"{path}/why", params={"at": at.isoformat()})
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        return found

    new_year = datetime(datetime.now(UTC).year + 1, 1, 1, tzinfo=UTC)
    assert (await why(new_year))["reason"] == "future"
    quiet = await why(datetime.now(UTC) + timedelta(seconds=2))
    assert (quiet["reason"], quiet["next_fire"]) == ("not_due", new_year.isoformat().replace("+00:00", "Z"))
    assert (await why(datetime(2020, 1, 1, tzinfo=UTC)))["reason"] == "not_created"
    await house.http.post(f"{path}/pause", json={"note": "moving house"})
    paused = await why(new_year)
    assert paused["reason"] == "paused"
    assert "moving house" in paused["answer"]


async def test_why_does_not_need_the_read_models(house: Served) -> None:
    await house.http.post("/v1/jobs", json={"job_id": "unread", "name": "u", "command": "true"})
    [run] = await ended(house, "unread")
    assert house.settings.nats_url is not None
    async with serving(settings_for(house.settings.data, house.settings.nats_url, None)) as blind:
        assert (await blind.http.get(f"/v1/runs/{run['run_id']}")).status_code == 503
        why = (await blind.http.get(f"/v1/runs/{run['run_id']}/why")).json()
        assert why["reason"] == "ran"
        assert (await blind.http.get("/v1/jobs/unread/why")).json()["reason"] == "ran"


# --- audit -----------------------------------------------------------------------------------------------


async def copied(house: Served) -> dict[str, list[Message]]:
    """Both streams as they are now."""
    copy: dict[str, list[Message]] = {}
    for stream, subject in ((names.JOBS, names.jobs_of_partition()), (names.RUNS, names.runs_subject())):
        async with Pull.ordered(house.app.connection, stream, [subject], after_sequence=0) as pull:
            copy[stream] = [
                (delivery.subject, delivery.data) async for batch in pull.backlog() for delivery in batch
            ]
    return copy


async def audited_copy(tmp_path: Path, copy: dict[str, list[Message]]) -> dict[str, Any]:
    with own_nats(tmp_path) as server:
        async with Connection.open(server.url, name="copy") as connection:
            await ensure_streams(connection, Layout(partitions=4))
            publisher = Publisher(connection)
            for messages in copy.values():
                for subject, data in messages:
                    await publisher.publish(subject, data)
        async with serving(settings_for(tmp_path, server.url, None)) as alone:
            return await audit(alone)


def edited(
    copy: dict[str, list[Message]], change: Callable[[RunEvent], list[RunEvent]]
) -> dict[str, list[Message]]:
    """The copy with each event replaced by none, itself or several."""
    runs = []
    for subject, data in copy[names.RUNS]:
        frame = decode_frame(data)
        events = tuple(new for event in frame.events for new in change(event))
        runs.append((subject, encode(Frame(writer=frame.writer, events=events, cursor=frame.cursor))))
    return {names.JOBS: copy[names.JOBS], names.RUNS: runs}


def ticks(event: RunEvent, kind: type) -> bool:
    return event.run_id.startswith("tick@") and isinstance(event, kind)


async def test_the_audit_is_clean_and_finds_what_is_planted_in_a_copy(house: Served, tmp_path: Path) -> None:
    began = datetime.now(UTC)
    body = {"job_id": "tick", "name": "tick", "schedule": "every 1s", "command": "true", "overlap": "allow"}
    await house.http.post("/v1/jobs", json=body)
    await ended(house, "tick", 3)
    await house.http.delete("/v1/jobs/tick")
    report = await audit(house)
    assert report["findings"] == [], report
    assert (report["clean"], report["faults"], report["note"]) == (True, 0, "")
    assert report["accounted"]["ran"] >= 3
    recent = await audit(house, **{"from": began.isoformat()})
    assert (recent["clean"], recent["expected"] >= 3) == (True, True)
    assert (await house.client.fleet.audit(start=began)).clean

    copy = await copied(house)
    queued = [
        event
        for _, data in copy[names.RUNS]
        for event in decode_frame(data).events
        if ticks(event, RunQueued)
    ]
    victim = queued[1]
    assert isinstance(victim, RunQueued)
    again = msgspec.structs.replace(victim, run_id=victim.run_id, at=victim.at + 1)
    invented = msgspec.structs.replace(
        victim,
        run_id=victim.run_id.replace("Z", "500000Z"),
        scheduled=victim.scheduled + 500_000,
        due=victim.due + 500_000,
    )

    def forget(event: RunEvent) -> list[RunEvent]:
        return [] if event.run_id == victim.run_id else [event]

    def forget_decision(event: RunEvent) -> list[RunEvent]:
        return [] if event is not None and event == victim else [event]

    def repeat(event: RunEvent) -> list[RunEvent]:
        return (
            [event, again] if event.run_id == victim.run_id and isinstance(event, RunSucceeded) else [event]
        )

    def invent(event: RunEvent) -> list[RunEvent]:
        return [event, invented] if event == victim else [event]

    for number, (change, faults) in enumerate(
        [
            (lambda event: [event], []),
            (forget, ["unaccounted"]),
            (forget_decision, ["orphaned", "unaccounted"]),
            (repeat, ["decided_twice"]),
            (invent, ["invented"]),
        ]
    ):
        where = tmp_path / str(number)
        where.mkdir()
        found = await audited_copy(where, edited(copy, change))
        assert sorted(finding["fault"] for finding in found["findings"]) == faults, found
        assert all(finding["job_id"] == "tick" for finding in found["findings"])


async def test_missed_fires_are_accounted_for_only_by_their_event(tmp_path: Path, house: Served) -> None:
    """A partition that nobody owned for a while: its missed fires are one event."""
    copy = await copied(house)
    ticking = [
        event
        for _, data in copy[names.RUNS]
        for event in decode_frame(data).events
        if ticks(event, RunQueued)
    ]
    first, last = ticking[0], ticking[-1]
    assert isinstance(first, RunQueued)
    assert isinstance(last, RunQueued)
    missed = RunsMissed(
        run_id=first.run_id,
        at=last.at,
        version=first.version,
        scheduled=first.scheduled,
        until=last.scheduled,
        count=len(ticking),
        reason="down",
    )

    def down(event: RunEvent) -> list[RunEvent]:
        if event == first:
            return [missed]
        return [] if event.run_id.startswith("tick@") else [event]

    def silent(event: RunEvent) -> list[RunEvent]:
        return [] if event.run_id.startswith("tick@") else [event]

    for name, change, faults in (("down", down, 0), ("silent", silent, len(ticking))):
        (tmp_path / name).mkdir()
        found = await audited_copy(tmp_path / name, edited(copy, change))
        assert found["faults"] == faults
        assert {finding["fault"] for finding in found["findings"]} <= {"unaccounted"}
