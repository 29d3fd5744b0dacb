"""The store is checked like the log and the database, and what cannot be kept is said: the job has succeeded anyway."""

from pathlib import Path

import httpx

from support.program import program
from support.waiting import wait_until


def test_a_missing_bucket(tmp_path: Path, s3_endpoint: str) -> None:
    bucket = f"{s3_endpoint}/lost-bucket"
    settings = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "WATERCLOCK_STORE": "s3://lost-bucket/logs",
        "WATERCLOCK_S3_ENDPOINT": s3_endpoint,
    }
    with program(tmp_path / "data", environment=settings) as clock:
        assert clock.http.get("/readyz").status_code == 200
        assert httpx.delete(bucket).status_code == 204

        ready = clock.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert "lost-bucket" in ready.json()["detail"]
        [store] = [check for check in clock.get("/v1/status")["checks"] if check["name"] == "store"]
        assert not store["ok"]

        lost = clock.cli("submit", "lost", "--wait", "--", "echo", "hello")
        assert lost.returncode == 0, lost.stderr
        [job] = clock.get("/v1/jobs", name="lost")["items"]
        run = clock.run_of(job["job_id"])
        assert run["status"] == "SUCCESS"
        assert "its output was lost" in run["reason"]
        assert run["log_url"] is None
        why = clock.get(f"/v1/runs/{run['run_id']}/why")
        assert any("its output was lost" in step["what"] for step in why["steps"])

        assert httpx.put(bucket).status_code == 200
        wait_until(lambda: clock.http.get("/readyz").status_code == 200, "the store to be found again")
