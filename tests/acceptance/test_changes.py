"""Who changed this job, what would this edit do, put it back; many at once; all of it as a file: as a user does it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from support.program import Program
from support.waiting import wait_until
from waterclock.api import SyncClient


def test_who_changed_it_and_back_again_through_every_door(waterclock: Program) -> None:
    body = {"job_id": "nightly", "command": "true", "cron": "0 3 * * *", "timezone": "Europe/Paris"}
    first = waterclock.post("/v1/jobs", body)["version"]
    assert waterclock.cli("update", "nightly", "--cron", "0 4 * * *", "--priority", "3").returncode == 0
    listed = waterclock.cli("versions", "nightly")
    assert listed.returncode == 0, listed.stderr
    assert "cron_expression" in listed.stdout
    assert "token:" in listed.stdout
    shown = waterclock.cli("diff", "nightly")
    assert "cron_expression: 0 3 * * * → 0 4 * * *" in shown.stdout, shown.stdout
    assert "priority: 0 → 3" in shown.stdout
    assert "\x1b" not in shown.stdout
    days = ("--from", "2027-03-27T00:00:00Z", "--to", "2027-03-30T00:00:00Z")
    tried = waterclock.cli("update", "nightly", "--cron", "0 3 * * *", "--what-if", *days)
    assert tried.returncode == 0, tried.stderr
    assert "+  2027-03-28T01:00:00Z  2027-03-28T03:00:00+02:00" in tried.stdout, tried.stdout
    assert "3 added, 3 removed" in tried.stdout
    back = waterclock.cli("rollback", "nightly", str(first))
    assert back.returncode == 0, back.stderr
    with SyncClient.connect(data=waterclock.data) as client:
        newest, *_ = client.jobs.versions("nightly").items
        assert newest.change == f"rollback to version {first}"
        assert client.jobs.version("nightly", first).cron_expression == "0 3 * * *"
        assert client.jobs.get("nightly").cron_expression == "0 3 * * *"
    assert waterclock.cli("rollback", "nightly", "999999999").returncode == 3
    assert waterclock.cli("diff", "nobody").returncode == 3


def test_history_survives_everything_dying_at_once(waterclock: Program) -> None:
    waterclock.post("/v1/jobs", {"job_id": "kept", "command": "true", "cron": "@yearly"})
    for priority in (1, 2):
        waterclock.http.patch("/v1/jobs/kept", json={"priority": priority}).raise_for_status()
    before = waterclock.get("/v1/jobs/kept/versions")
    waterclock.kill("nats")
    waterclock.kill("api")

    def again() -> Any:
        try:
            return waterclock.get("/v1/jobs/kept/versions")
        except (httpx.HTTPError, AssertionError):
            return None

    assert wait_until(again, "the api to be back", 60) == before
    assert [one["change"] for one in before] == ["updated", "updated", "created"]


def test_many_at_once_by_a_label(waterclock: Program) -> None:
    jobs = [
        {"job_id": f"team-{n}", "command": "true", "cron": "@yearly", "labels": {"team": "data"}}
        for n in range(30)
    ]
    waterclock.http.post("/v1/jobs:batch", json=jobs).raise_for_status()
    refused = waterclock.cli("pause", "--label", "team=data")
    assert (refused.returncode, "--all" in refused.stderr) == (2, True)
    assert waterclock.cli("pause").returncode == 2
    tried = waterclock.cli("pause", "--label", "team=data", "--all", "--dry-run")
    assert tried.stdout == "30 jobs would be paused\n"
    done = waterclock.cli("pause", "--label", "team=data", "--all", "--note", "move")
    assert done.stdout == "30 jobs paused\n", done.stderr
    assert waterclock.get("/v1/jobs/team-7")["note"] == "move"
    two = waterclock.cli("resume", "team-1", "team-2", "--json")
    assert json.loads(two.stdout)["done"] == 2, two.stderr
    assert waterclock.cli("cancel", "--label", "team=data", "--all", "--yes").stdout == "30 jobs cancelled\n"


def test_hundreds_of_runs_are_stopped_and_tried_again_by_a_filter(waterclock: Program) -> None:
    """More than are taken at a time; and what is not matched any more is not touched again."""
    number = 700
    job = {"name": "stuck", "handler": "nobody_serves_this", "cron": "@yearly", "labels": {"batch": "stuck"}}
    lines = [{**job, "job_id": f"stuck-{n}"} for n in range(number)]
    waterclock.http.post("/v1/jobs:batch", json=lines, timeout=60).raise_for_status()
    every_job = {"action": "runNow", "filter": {"label": ["batch=stuck"]}}
    assert bulk(waterclock, "jobs", every_job) == number
    open_ones = {"action": "cancel", "filter": {"label": ["batch=stuck"]}}
    cancelled = {"action": "retry", "filter": {"label": ["batch=stuck"], "status": ["CANCELLED"]}}

    def matched(body: dict[str, Any]) -> int:
        found = waterclock.post("/v1/runs:bulk", {**body, "dry_run": True}, status=200)
        assert found["done"] == 0
        return int(found["matched"])

    wait_until(lambda: matched(open_ones) == number, "all of them to wait", 60)
    assert bulk(waterclock, "runs", open_ones) == number
    wait_until(lambda: matched(cancelled) == number, "all of them to be cancelled", 60)
    assert bulk(waterclock, "runs", open_ones) == 0
    assert bulk(waterclock, "runs", cancelled) == number
    wait_until(lambda: matched(open_ones) == number, "all of them to wait again", 60)
    by_command = waterclock.cli("cancel-run", "--label", "batch=stuck", "--since", "1h", "--all", "--yes")
    assert by_command.stdout == f"{number} runs asked to stop\n", by_command.stderr
    wait_until(lambda: matched(cancelled) == number, "all of them to be cancelled again", 60)
    tried = waterclock.cli(
        "retry", "--status", "cancelled,failed", "--label", "batch=stuck", "--all", "--dry-run"
    )
    assert tried.stdout == f"{number} runs would be tried again\n", tried.stderr


def test_a_change_of_many_goes_on_after_the_api_has_died(waterclock: Program) -> None:
    number = 1_500
    job = {"name": "many", "command": "true", "cron": "@yearly", "labels": {"batch": "many"}}
    lines = [{**job, "job_id": f"many-{n}"} for n in range(number)]
    waterclock.http.post("/v1/jobs:batch", json=lines, timeout=60).raise_for_status()
    with ThreadPoolExecutor() as beside:
        words = ("pause", "--label", "batch=many", "--all", "--yes")
        asked = beside.submit(waterclock.cli, *words, timeout=120)
        wait_until(lambda: waterclock.get("/v1/jobs/many-0")["status"] == "PAUSED", "it to have begun")
        waterclock.kill("api")
        ended = asked.result()
    assert ended.returncode == 0, ended.stderr
    again = waterclock.cli("pause", "--label", "batch=many", "--all", "--yes")
    assert again.stdout == "0 jobs paused\n", again.stderr
    paused = waterclock.post(
        "/v1/jobs:bulk",
        {"action": "resume", "filter": {"label": ["batch=many"]}, "dry_run": True},
        status=200,
    )
    assert paused["matched"] == number


def bulk(clock: Program, what: str, body: dict[str, Any]) -> int:
    """To the end, as a client does it; answers how many it was done to."""
    done = 0
    cursor: str | None = None
    while True:
        answer = clock.post(f"/v1/{what}:bulk", {**body, "cursor": cursor}, status=200)
        assert answer["refused"] == []
        done += int(answer["done"])
        cursor = answer["next_cursor"]
        if cursor is None:
            return done


def test_an_export_applied_changes_nothing(waterclock: Program, tmp_path: Path) -> None:
    waterclock.post("/v1/jobs", {"job_id": "plain", "command": "echo a\necho b\n", "every": "90s"})
    nodes = [{"id": "a", "command": "true"}, {"id": "b", "command": "true", "depends_on": ["a"]}]
    waterclock.post(
        "/v1/workflows", {"workflow_id": "graph", "name": "graph", "nodes": nodes, "cron": "@daily"}
    )
    exported = waterclock.cli("export")
    assert exported.returncode == 0, exported.stderr
    file = tmp_path / "jobs.yaml"
    file.write_text(exported.stdout)
    for flags in (("--dry-run",), ()):
        applied = waterclock.cli("apply", "-f", str(file), "--json", *flags)
        assert applied.returncode == 0, applied.stderr
        actions = {one["job_id"]: one["action"] for one in json.loads(applied.stdout)["applied"]}
        assert {"plain", "graph"} <= set(actions)
        assert set(actions.values()) == {"unchanged"}, applied.stdout
    over_http = waterclock.http.get("/v1/export", headers={"Accept": "application/json"}).json()
    assert len(over_http) == len(json.loads(waterclock.cli("export", "--json").stdout))
