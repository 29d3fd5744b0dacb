"""What an edit does to a job in each state, through every door: the cases are the table of docs/schedules.md."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from support.program import Program
from support.waiting import wait_until
from waterclock.api import SyncClient
from waterclock.api.errors import Conflict

PAGE = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
DOORS = ("rest", "cli", "client", "apply")
Edit = dict[str, Any]


def cells() -> Iterator[tuple[str, str, str]]:
    """(what is said, the state of the job, what follows)."""
    section = PAGE.partition("## What an edit does")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    header, _, *body = rows
    assert len(body) == len(EDITS)
    for said, *outcomes in body:
        for state, outcome in zip(header[1:], outcomes, strict=True):
            yield said, state, outcome


def to_come() -> str:
    return (datetime.now(UTC) + timedelta(days=30)).isoformat()


EDITS: dict[str, Callable[[], Edit]] = {
    "`schedule: now`": lambda: {"schedule": "now"},
    "a `schedule_time` that is over": lambda: {"schedule_time": "2020-02-29T12:00:00Z"},
    "a `schedule_time` to come": lambda: {"schedule_time": to_come()},
    "a `cron_expression` or `every`": lambda: {"cron_expression": "0 0 1 1 *"},
    "anything else": lambda: {"labels": {"edited": "yes"}},
}
OPTIONS = {"schedule": "--at", "schedule_time": "--at", "cron_expression": "--cron", "labels": "--label"}


def prepare(clock: Program, job_id: str, state: str) -> None:
    """A job in that state, with a time of its own that does not come in the test."""
    body = {"job_id": job_id, "command": "true", "schedule_time": to_come()}
    if state == "COMPLETED":
        body["schedule_time"] = "2021-01-01T00:00:00Z"
    clock.post("/v1/jobs", body)
    if state == "COMPLETED":
        clock.run_of(job_id)
    elif state == "PAUSED":
        clock.post(f"/v1/jobs/{job_id}/pause", status=200)
    elif state == "CANCELLED":
        assert clock.http.delete(f"/v1/jobs/{job_id}").status_code in (200, 204)
    wait_until(lambda: clock.get(f"/v1/jobs/{job_id}")["status"] == state, f"{job_id} to be {state}")


def edit(clock: Program, door: str, job_id: str, said: Edit, tmp_path: Path) -> bool:
    """Whether it was accepted."""
    match door:
        case "rest":
            answer = clock.http.patch(f"/v1/jobs/{job_id}", json=said)
            assert answer.status_code in (200, 409), answer.text
            return answer.status_code == 200
        case "cli":
            [(field, value)] = said.items()
            text = ",".join(f"{key}={word}" for key, word in value.items()) if field == "labels" else value
            done = clock.cli("update", job_id, OPTIONS[field], text)
            assert done.returncode in (0, 1), done.stderr
            return done.returncode == 0
        case "client":
            with SyncClient.connect(data=clock.data) as client:
                try:
                    client.jobs.update(job_id, **said)
                except Conflict:
                    return False
                return True
        case _:
            before = {"job_id": job_id, "command": "true", "schedule_time": None}
            if "labels" in said:
                before["schedule_time"] = clock.get(f"/v1/jobs/{job_id}")["schedule_time"]
            file = tmp_path / f"{job_id}.json"
            file.write_text(json.dumps({**{k: v for k, v in before.items() if v is not None}, **said}))
            done = clock.cli("apply", "-f", str(file))
            assert done.returncode in (0, 2), done.stderr
            return done.returncode == 0


async def in_sql(clock: Program, job_id: str) -> tuple[str, datetime | None]:
    connection = await asyncpg.connect(clock.connection["database"])
    try:
        row = await connection.fetchrow(
            "SELECT status, next_run_at FROM waterclock.jobs WHERE job_id = $1", job_id
        )
        return ("", None) if row is None else (row["status"], row["next_run_at"])
    finally:
        await connection.close()


def agreed(clock: Program, job_id: str) -> tuple[str, datetime | None]:
    """Status and next run, once REST, the list of next fires and SQL say the same."""

    def same() -> tuple[str, datetime | None] | None:
        job = clock.get(f"/v1/jobs/{job_id}")
        upcoming = job["next_run_at"] and datetime.fromisoformat(job["next_run_at"])
        fires = clock.get(f"/v1/jobs/{job_id}/next", n=1)["fires"]
        listed = datetime.fromisoformat(fires[0]["time"]) if fires else None
        said = {(job["status"], upcoming), (job["status"], listed), asyncio.run(in_sql(clock, job_id))}
        return said.pop() if len(said) == 1 else None

    return wait_until(same, f"REST, next and SQL to agree about {job_id}")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("said", "state", "outcome"), list(cells()))
def test_an_edit(waterclock: Program, tmp_path: Path, said: str, state: str, outcome: str, door: str) -> None:
    job_id = re.sub(r"[^a-z]+", "-", f"{door} {state} {said}".lower()).strip("-")
    if door == "cli" and said == "`schedule: now`":
        said = "a `schedule_time` that is over"  # the command line has no word for now
    revives = door == "apply" and state == "CANCELLED"
    prepare(waterclock, job_id, state)
    runs_before = len(waterclock.get(f"/v1/jobs/{job_id}/runs"))
    began = datetime.now(UTC)
    accepted = edit(waterclock, door, job_id, EDITS[said](), tmp_path)
    if revives:
        assert accepted
        return
    assert accepted == (outcome != "refused")
    if outcome == "runs at once":
        run = wait_until(
            lambda: next(
                (
                    run
                    for run in waterclock.get(f"/v1/jobs/{job_id}/runs")
                    if run["status"] == "SUCCESS" and datetime.fromisoformat(run["scheduled_time"]) >= began
                ),
                None,
            ),
            f"{job_id} to run",
        )
        assert agreed(waterclock, job_id) == ("COMPLETED", None)
        why = waterclock.get(f"/v1/jobs/{job_id}/why")
        assert why["run_id"] == run["run_id"], why
    else:
        status, upcoming = agreed(waterclock, job_id)
        assert status == ("SCHEDULED" if state == "COMPLETED" and "no run" not in outcome else state)
        assert (upcoming is not None) == (status == "SCHEDULED")
        assert len(waterclock.get(f"/v1/jobs/{job_id}/runs")) == runs_before
