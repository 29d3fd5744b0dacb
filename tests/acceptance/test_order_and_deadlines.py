"""What waits goes by priority, exactly, whoever brought it; and what has not started by its deadline is missed, with an
executor or without."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from support.program import Program, program
from support.waiting import wait_until
from waterclock.api import SyncClient


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One slot: what is submitted while it is taken waits."""
    data = tmp_path_factory.mktemp("order") / "data"
    with program(data, environment={"WATERCLOCK_SLOTS": "1"}) as running:
        yield running


class Gate:
    """A job that has the only slot until it is let go, and the order in which others came after it."""

    def __init__(self, clock: Program, path: Path, name: str) -> None:
        self.log = path / "order"
        self._open = path / "open"
        path.chmod(0o777)
        self._clock = clock
        waits = f"while [ ! -e {self._open} ]; do sleep 0.02; done"
        clock.post("/v1/jobs", {"job_id": name, "command": waits, "priority": 100})
        wait_until(lambda: self.status(name) == "RUNNING", "the slot to be taken")

    def status(self, job_id: str) -> str | None:
        run = self._clock.get(f"/v1/jobs/{job_id}/status").get("latest_run")
        return None if run is None else str(run["status"])

    def job(self, job_id: str, priority: int, **more: Any) -> dict[str, Any]:
        command = f"echo {job_id} >> {self.log}"
        return {"job_id": job_id, "command": command, "priority": priority, "max_retries": 0, **more}

    def queued(self, *job_ids: str) -> None:
        for job_id in job_ids:
            wait_until(partial(self._is_queued, job_id), f"{job_id} to be queued")

    def _is_queued(self, job_id: str) -> bool:
        return self.status(job_id) == "QUEUED"

    def release(self) -> None:
        self._open.touch()

    def order(self, count: int) -> list[str]:
        def written() -> list[str]:
            return self.log.read_text().split() if self.log.exists() else []

        return wait_until(lambda: found if len(found := written()) >= count else None, f"{count} runs", 60)


def test_what_waits_starts_in_the_order_of_its_priority_whoever_brought_it(
    clock: Program, tmp_path: Path
) -> None:
    gate = Gate(clock, tmp_path, "busy")
    wanted: dict[str, int] = {}
    for priority in (10, 20, 30, 49):
        wanted[f"rest{priority}"] = priority
        clock.post("/v1/jobs", gate.job(f"rest{priority}", priority))
    for priority in (0, 48, 51):
        wanted[f"cli{priority}"] = priority
        body = gate.job(f"cli{priority}", priority)
        words = ("--id", body["job_id"], "--priority", str(priority), "--shell", body["command"])
        done = clock.cli("submit", body["job_id"], *words)
        assert done.returncode == 0, done.stderr
    batch = [gate.job(f"batch{priority}", priority) for priority in (5, 99, 1, 50, 100, 47)]
    wanted |= {body["job_id"]: body["priority"] for body in batch}
    assert clock.http.post("/v1/jobs:batch", json=batch).status_code == 200
    with SyncClient.connect(data=clock.data) as client:
        for priority in (11, 89):
            wanted[f"client{priority}"] = priority
            client.jobs.create(**gate.job(f"client{priority}", priority))
    long_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    clock.post("/v1/jobs", gate.job("waited-for-an-hour", 7, schedule_time=long_ago))
    gate.queued(*wanted, "waited-for-an-hour")
    queues = {queue["priority"]: queue for queue in clock.get("/v1/queues")["items"] if queue["waiting"]}
    assert sorted(queues) == sorted({*wanted.values(), 7})
    assert {queue["waiting"] for queue in queues.values()} == {1}
    gate.release()
    expected = ["waited-for-an-hour", *sorted(wanted, key=lambda job_id: -wanted[job_id])]
    assert gate.order(len(expected)) == expected


def test_what_is_urgent_goes_before_any_number_that_came_before_it(clock: Program, tmp_path: Path) -> None:
    """Also if there is no room for more of those among the executors."""
    gate = Gate(clock, tmp_path, "busy-again")
    crowd = [gate.job(f"crowd{number}", 3) for number in range(400)]
    assert clock.http.post("/v1/jobs:batch", json=crowd).status_code == 200
    gate.queued("crowd0")
    for priority in (4, 9):
        clock.post("/v1/jobs", gate.job(f"urgent{priority}", priority))
    gate.queued("urgent4", "urgent9")
    gate.release()
    assert gate.order(2)[:2] == ["urgent9", "urgent4"]
    assert len(gate.order(402)) == 402


def test_nobody_serves_it_and_it_is_missed_by_its_deadline_as_everybody_says(clock: Program) -> None:
    body = {"job_id": "unserved", "command": "true", "queue": "nobody-there", "start_deadline_seconds": 1}
    clock.post("/v1/jobs", body)
    run = clock.run_of("unserved")
    assert run["status"] == "MISSED"
    reason = (
        "start deadline of 1 s passed in the queue: no executor serves light commands in queue nobody-there"
    )
    assert run["reason"] == reason
    assert run["start_time"] is None
    events = clock.get(f"/v1/runs/{run['run_id']}/events")["items"]
    assert [event["type"] for event in events] == ["queued", "missed"]
    why = json.loads(clock.cli("why", run["run_id"], "--json").stdout)
    assert reason in why["answer"]
    wait_until(lambda: asyncio.run(in_sql(clock, run["run_id"])) == ("MISSED", reason), "SQL to say the same")
    wait_until(lambda: not waiting_in(clock, "nobody-there"), "its work to be taken out of the queue")
    clock.post(f"/v1/runs/{run['run_id']}/retry", status=200)
    wait_until(lambda: clock.get(f"/v1/runs/{run['run_id']}")["status"] == "QUEUED", "it to be queued again")
    wait_until(lambda: clock.get(f"/v1/runs/{run['run_id']}")["status"] == "MISSED", "it to be missed again")


def test_it_waits_for_a_slot_past_its_deadline_and_never_starts(clock: Program, tmp_path: Path) -> None:
    gate = Gate(clock, tmp_path, "busy-for-long")
    clock.post("/v1/jobs", gate.job("late", 50, start_deadline_seconds=1))
    clock.post("/v1/jobs", gate.job("patient", 0, start_deadline_seconds=600))
    assert clock.run_of("late")["status"] == "MISSED"
    assert gate.status("busy-for-long") == "RUNNING"
    gate.release()
    assert gate.order(1) == ["patient"]
    assert clock.run_of("patient")["status"] == "SUCCESS"


def waiting_in(clock: Program, name: str) -> int:
    return sum(queue["waiting"] for queue in clock.get("/v1/queues")["items"] if queue["queue"] == name)


async def in_sql(clock: Program, run_id: str) -> tuple[str, str] | None:
    database = await asyncpg.connect(clock.connection["database"])
    try:
        row = await database.fetchrow(
            "SELECT status, reason FROM waterclock.job_runs WHERE run_id = $1", run_id
        )
        return None if row is None else (row["status"], row["reason"])
    finally:
        await database.close()
