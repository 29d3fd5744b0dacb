"""Every process of the program killed once under load: all that was accepted ends well, nothing is lost."""

import json
from pathlib import Path

import asyncpg
import pytest

from support.program import COMPONENTS, Program, frozen, program
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

COUNT = 500


def submit(waterclock: Program, start: int, count: int) -> list[str]:
    jobs = [
        {
            "name": f"short-{number}",
            "job_id": f"short-{number}",
            "command": ["sh", "-c", "sleep 0.05"],
            "max_retries": 2,
        }
        for number in range(start, start + count)
    ]

    def accepted() -> list[str] | None:
        body = "\n".join(json.dumps({**job, "idempotency_key": job["job_id"]}) for job in jobs)
        answer = waterclock.http.post(
            "/v1/jobs:batch", content=body, headers={"Content-Type": "application/x-ndjson"}
        )
        if answer.status_code == 503:
            return None
        assert answer.status_code == 200, answer.text
        lines = [json.loads(line) for line in answer.text.splitlines() if line.strip()]
        return [line["job_id"] for line in lines] if all("job_id" in line for line in lines) else None

    return wait_until(accepted, "the batch to be accepted", 60)


async def statuses(waterclock: Program) -> dict[str, int]:
    connection = await asyncpg.connect(waterclock.connection["database"])
    try:
        rows = await connection.fetch(
            "SELECT status, count(*) AS n FROM waterclock.job_runs WHERE job_id LIKE 'short-%' GROUP BY status"
        )
    finally:
        await connection.close()
    return {row["status"]: row["n"] for row in rows}


async def test_each_component_killed_once_while_jobs_are_in_flight(tmp_path: Path) -> None:
    with program(tmp_path / "data") as waterclock:
        accepted: list[str] = []
        share = COUNT // len(COMPONENTS) + 1
        for number, component in enumerate(COMPONENTS):
            accepted += submit(waterclock, number * share, share)
            old = waterclock.kill(component)
            wait_until(lambda: waterclock.processes()[component] not in ([], [old]), f"a new {component}")  # noqa: B023
        assert len(set(accepted)) == share * len(COMPONENTS) >= COUNT
        for job_id in accepted:
            run = waterclock.run_of(job_id, deadline=90)
            assert run["status"] == "SUCCESS", run
        runs = [len(waterclock.get(f"/v1/jobs/{job_id}/runs")) for job_id in accepted]
        assert set(runs) == {1}
        assert await statuses(waterclock) == {"SUCCESS": len(accepted)}
        audit = waterclock.cli("audit")
        assert audit.returncode == 0, audit.stdout + audit.stderr


async def test_kill_of_everything_at_once_loses_nothing(tmp_path: Path) -> None:
    waterclock = Program(tmp_path / "data")
    waterclock.start()
    accepted = submit(waterclock, 0, 100)
    waterclock.kill_everything()
    with program(tmp_path / "data") as again:
        for job_id in accepted:
            assert again.run_of(job_id, deadline=60)["status"] == "SUCCESS"
        audit = again.cli("audit")
        assert audit.returncode == 0, audit.stdout + audit.stderr


async def test_jobs_are_accepted_and_executed_while_postgres_is_away(tmp_path: Path) -> None:
    with program(tmp_path / "data") as waterclock:
        waterclock.post("/v1/jobs", {"job_id": "before", "name": "before", "command": ["true"]})
        waterclock.run_of("before")
        stopped = waterclock.processes()["postgres"][0]
        with frozen(stopped):
            marker = tmp_path / "ran"
            waterclock.post("/v1/jobs", {"job_id": "during", "name": "during", "command": f"touch {marker}"})
            wait_until(marker.exists, "the job to run without Postgres")
            job = waterclock.get("/v1/jobs/during")
            assert job["name"] == "during"
            assert waterclock.http.get("/v1/jobs").status_code == 503
        assert waterclock.run_of("during", deadline=60)["status"] == "SUCCESS"
        assert waterclock.get("/v1/jobs", q="during")["items"][0]["job_id"] == "during"
