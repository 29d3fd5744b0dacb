"""`waterclock up` of today goes on with the streams that an earlier version has left."""

import json
from pathlib import Path

import pytest

from servers.backend import own_nats
from stored_log.stored_log import PARTITIONS, TOKEN, VERSIONS, load, restore
from support.program import ENDED, program
from support.waiting import wait_until

SURVIVORS = ("survivor", "survivor-once", "retried-on", "spread-on", "waits")


@pytest.mark.parametrize("name", ["killed", "stopped"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_it_goes_on_where_the_earlier_version_ended(version: str, name: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with own_nats(data) as server:
        await restore(server.url, load(version, name))
    environment = {
        "WATERCLOCK_PARTITIONS": str(PARTITIONS),
        "WATERCLOCK_TOKEN": TOKEN,
        "PYTHONPATH": str(Path(__file__).parents[1] / "stored_log"),
    }
    with program(data, "--worker", "recorded_worker:worker", environment=environment) as waterclock:
        for job_id in SURVIVORS:
            assert waterclock.run_of(job_id, 60)["status"] in ENDED
        assert waterclock.get("/v1/jobs/daily")["status"] == "SCHEDULED"
        assert waterclock.get("/v1/jobs/paused")["status"] == "PAUSED"
        history = waterclock.get("/v1/jobs/paused/versions")
        assert [(one["change"], one["note"]) for one in history] == [("paused", "holidays"), ("created", "")]
        back = waterclock.post("/v1/jobs/paused/rollback", {"version": history[-1]["version"]}, status=200)
        assert (back["version"], back["status"]) == (history[0]["version"], "PAUSED")
        created = waterclock.post("/v1/jobs", {"name": "after the upgrade", "command": "true"})
        assert waterclock.run_of(created["job_id"])["status"] == "SUCCESS"
        again = waterclock.post("/v1/jobs/shell/runNow", status=202)["run_id"]
        wait_until(
            lambda: waterclock.get(f"/v1/runs/{again}")["status"] == "SUCCESS", "an old job to run again"
        )
        dead = {letter["job_id"] for letter in waterclock.get("/v1/dead-letters")["items"]}
        assert {"dead", "redriven"} <= dead
        audited = waterclock.cli("audit", "--json", "--from", "2026-01-01T00:00:00Z")
        assert audited.returncode == 0, audited.stdout + audited.stderr
        assert json.loads(audited.stdout)["findings"] == []
