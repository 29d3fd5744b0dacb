"""What is full says so: callers get a clear error, nothing that was accepted is lost, and `status` is red."""

from pathlib import Path

from support.program import program
from support.waiting import wait_until

BIG = "x" * 200_000


def test_a_full_log_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    with program(tmp_path / "data", environment={"WATERCLOCK_LOG_BYTES": "20000000"}) as running:
        accepted = []
        for number in range(100):
            body = {"name": f"n{number}", "command": "true", "cron": "@yearly", "payload": BIG}
            answer = running.http.post("/v1/jobs", json=body)
            if answer.status_code != 201:
                break
            accepted.append(answer.json()["job_id"])
        assert answer.status_code == 503, answer.text
        assert "full" in answer.json()["detail"]
        assert int(answer.headers["Retry-After"]) >= 1
        assert 5 < len(accepted) < 100
        check = next(one for one in running.get("/v1/status")["checks"] if one["name"] == "log")
        assert not check["ok"]
        assert "JOBS" in check["detail"]
        for job_id in (accepted[0], accepted[-1]):
            assert running.http.post(f"/v1/jobs/{job_id}/runNow").status_code == 202
            assert running.run_of(job_id)["status"] == "SUCCESS"
        assert len(running.get("/v1/jobs", limit=100)["items"]) >= len(accepted)
        wait_until(lambda: running.http.get("/healthz").status_code == 200, "the api")
