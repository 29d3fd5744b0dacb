"""The command line against a whole house: what it prints, and how it exits."""

import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.waiting import eventually
from waterclock.core.runtime.data_directory import ConnectionInfo, write_connection

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    def __init__(self, data: Path) -> None:
        self.data = data

    async def __call__(
        self,
        *arguments: str,
        data: Path | None = None,
        environ: dict[str, str] | None = None,
        stdin: str | None = None,
    ) -> Ended:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WATERCLOCK_")}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "waterclock.api.cli",
            *arguments,
            stdin=None if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, **(environ or {}), "WATERCLOCK_DATA": str(data or self.data)},
        )
        async with asyncio.timeout(30):
            out, err = await process.communicate(None if stdin is None else stdin.encode())
        return Ended(process.returncode or 0, out.decode(), err.decode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(data: Path) -> Shell:
    return Shell(data)


async def test_submit_and_wait_prints_what_the_job_prints(shell: Shell) -> None:
    ended = await shell("submit", "hello", "--wait", "--", "echo", "hi")
    assert (ended.code, ended.out) == (0, "hi\n"), ended.err


async def test_a_job_that_fails_fails_the_command_and_says_why(shell: Shell) -> None:
    ended = await shell("submit", "no", "--retries", "0", "--wait", "--", "false")
    assert (ended.code, ended.out) == (1, "")
    assert "FAILED" in ended.err
    assert "exit code 1" in ended.err
    assert len(ended.err.splitlines()) == 1


async def test_arguments_reach_the_program_as_they_are(shell: Shell) -> None:
    odd = ["a b", "$HOME", ";", "--flag", "-x", "*", "`id`", '"']
    ended = await shell("submit", "argv", "--wait", "--", "printf", "%s\\n", *odd)
    assert ended.out.splitlines() == odd


async def test_what_runs_can_be_said_in_every_way(shell: Shell) -> None:
    said = await shell("submit", "sh", "--shell", "echo $((1 + 1))", "--wait")
    assert said.out == "2\n"
    payload = await shell("submit", "in", "--payload", '{"a": 1}', "--wait", "--shell", "cat")
    assert json.loads(payload.out) == {"a": 1}
    handler = await shell("submit", "mail", "--handler", "email_send", "--in", "1h", "--json")
    assert handler.code == 0
    job = (await shell("job", handler.json["job_id"], "--json")).json
    assert job["task"] == {"kind": "handler", "handler": "email_send"}
    http = await shell("submit", "ping", "--every", "1h", "--http", "GET", "https://example.com/x", "--json")
    assert (await shell("job", http.json["job_id"], "--json")).json["task"]["url"] == "https://example.com/x"


async def test_an_artifact_is_uploaded_and_run(shell: Shell) -> None:
    script = shell.data / "greet.sh"
    script.write_text('#!/bin/sh\necho "hello $1"\n')
    ended = await shell("submit", "greet", "--artifact", str(script), "--wait", "--", "world")
    assert (ended.code, ended.out) == (0, "hello world\n"), ended.err
    pushed = await shell("artifact", "push", str(script))
    assert pushed.out.startswith("sha256:")
    assert pushed.out.strip() in (await shell("artifact", "list")).out
    assert (await shell("artifact", "push", "/nowhere")).code == 2


async def test_every_option_of_submit_is_a_field(shell: Shell) -> None:
    upstream = (
        await shell("submit", "up", "--id", "upstream", "--cron", "@yearly", "--", "true")
    ).out.strip()
    ended = await shell(
        *(
            "submit",
            "full",
            "--id",
            "full",
            "--cron",
            "0 3 * * *",
            "--cron",
            "0 4 * * *",
            "--tz",
            "Europe/Paris",
        ),
        *("--retries", "4", "--timeout", "90s", "--priority", "7", "--tier", "medium", "--queue", "gpu"),
        *("--after", upstream, "--overlap", "queue_one", "--catch-up", "none", "--key", "full-key"),
        *("--label", "team=data", "--label", "x=y=z", "--critical", "--exactly-once", "--json", "--", "true"),
    )
    assert ended.code == 0, ended.err
    job = (await shell("job", "full", "--json")).json
    assert job["cron_expression"] == ["0 3 * * *", "0 4 * * *"]
    for field, value in {
        "timezone": "Europe/Paris", "max_retries": 4, "timeout_seconds": 90, "priority": 7, "tier": "medium",
        "queue": "gpu", "dependencies": ["upstream"], "overlap": "queue_one", "idempotency_key": "full-key",
        "labels": {"team": "data", "x": "y=z"}, "critical": True, "delivery": "exactly_once",
    }.items():  # fmt: skip
        assert job[field] == value, field
    assert job["catch_up"]["policy"] == "none"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("submit", "x", "--cron", "61 * * * *", "--", "true"), "cron"),
        (("submit", "x", "--cron", "0 0 30 2 *", "--", "true"), "cron"),
        (("submit", "x", "--tz", "Mars/Olympus", "--cron", "@daily", "--", "true"), "timezone"),
        (("submit", "x", "--at", "tomorrow", "--", "true"), "schedule_time"),
        (("submit", "x", "--in", "soon", "--", "true"), "delay"),
        (("submit", "x", "--every", "0s", "--", "true"), "every"),
        (("submit", "x", "--shell", ""), "command"),
        (("submit", "n" * 10_000, "--", "true"), "name"),
        (("submit", "x", "--after", "nobody", "--", "true"), "dependencies"),
        (("submit", "x", "--payload", "{", "--", "true"), "--payload"),
        (("submit", "x", "--label", "nothing", "--", "true"), "--label"),
        (("submit", "x", "--priority", "1000", "--", "true"), "priority"),
        (("submit", "x", "--retries", "many", "--", "true"), "--retries"),
        (("submit", "x", "--tier", "huge", "--", "true"), "tier"),
        (("submit", "x", "--surprise", "--", "true"), "--surprise"),
        (("submit",), "NAME"),
        (("submit", "x", "--shell", "a", "--handler", "b"), "one thing"),
        (("nonsense",), "nonsense"),
        (("jobs", "--limit", "0"), "--limit"),
        (("jobs", "--status", "NICE"), "status"),
        (("next", "61 * * * *"), "schedule"),
    ],
)
async def test_wrong_usage_is_one_line_with_the_field(
    shell: Shell, arguments: tuple[str, ...], field: str
) -> None:
    ended = await shell(*arguments)
    assert ended.code == 2, ended
    assert field in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.out == ""


async def test_a_payload_that_is_too_large_is_refused(shell: Shell) -> None:
    big = shell.data / "big.json"
    big.write_text(json.dumps("x" * 10_000_000))
    ended = await shell("submit", "x", "--payload", f"@{big}", "--", "true")
    assert ended.code == 2
    assert "payload: has 10000002 bytes" in ended.err
    small = shell.data / "small.json"
    small.write_text('{"from": "a file"}')
    read = await shell("submit", "x", "--payload", f"@{small}", "--wait", "--shell", "cat")
    assert json.loads(read.out) == {"from": "a file"}


async def test_what_is_not_there_exits_3(shell: Shell) -> None:
    for arguments in (
        ("job", "nobody"),
        ("runs", "nobody"),
        ("run", "x@y"),
        ("logs", "x@y"),
        ("pause", "nobody"),
        ("dead", "--job", "nobody"),
        ("redrive", "--job", "nobody"),
        ("redrive", "x@y"),
    ):
        ended = await shell(*arguments)
        assert ended.code == 3, ended
        assert "there is no" in ended.err


async def test_a_system_that_is_away_exits_4(shell: Shell, tmp_path: Path) -> None:
    ended = await shell("jobs", data=tmp_path)
    assert ended.code == 4
    assert "waterclock up" in ended.err
    away = ConnectionInfo(http="http://127.0.0.1:1", nats="nats://127.0.0.1:1", database="", token="t" * 20)
    write_connection(tmp_path, away)
    ended = await shell("jobs", data=tmp_path)
    assert ended.code == 4
    assert len(ended.err.splitlines()) == 1


async def test_ids_may_be_shortened_if_one_is_meant(shell: Shell) -> None:
    for name in ("shorten-one", "shorten-two"):
        await shell("submit", name, "--id", name, "--cron", "@yearly", "--", "true")
    assert (await shell("job", "shorten-o", "--json")).json["job_id"] == "shorten-one"
    both = await shell("job", "shorten-")
    assert both.code == 3
    assert "several" in both.err
    named = await shell("submit", "only one has this name", "--cron", "@yearly", "--", "true")
    assert (await shell("job", "only one has this name", "--json")).json["job_id"] == named.out.strip()
    assert (await shell("pause", "shorten-t", "--note", "why not")).out.startswith("shorten-two paused")
    await shell("submit", "x", "--id", "lengthened", "--after", "shorten-o", "--", "true")
    assert (await shell("job", "lengthened", "--json")).json["dependencies"] == ["shorten-one"]
    unclear = await shell("submit", "x", "--after", "shorten-", "--", "true")
    assert unclear.code == 2
    assert "dependencies: shorten- is short for several jobs" in unclear.err


async def test_a_job_is_managed(shell: Shell) -> None:
    await shell("submit", "managed", "--id", "managed", "--cron", "0 3 * * *", "--", "true")
    updated = (await shell("update", "managed", "--cron", "0 4 * * *", "--priority", "3", "--json")).json
    assert (updated["cron_expression"], updated["priority"], updated["name"]) == ("0 4 * * *", 3, "managed")
    stale = await shell("update", "managed", "--priority", "9", "--if-version", "1")
    assert stale.code == 1
    assert (await shell("pause", "managed", "--json")).json["status"] == "PAUSED"
    assert (await shell("resume", "managed", "--json")).json["status"] == "SCHEDULED"
    ran = await shell("run-now", "managed", "--wait", "--json")
    assert (ran.code, ran.json["status"]) == (0, "SUCCESS")
    listed = (await shell("runs", "managed", "--json")).json["items"]
    assert [run["run_id"] for run in listed] == [ran.json["run_id"]]
    assert "SUCCESS" in (await shell("run", ran.json["run_id"])).out
    assert (await shell("cancel", "managed", "--json")).json["status"] == "CANCELLED"
    assert (await shell("update", "managed", "--priority", "1")).code == 1


async def test_dead_letters_are_tried_again(shell: Shell) -> None:
    flag = _where_jobs_look() / "cli-repaired"
    failed = await shell(
        "submit",
        "broken",
        "--id",
        "broken",
        "--retries",
        "0",
        "--wait",
        "--json",
        "--",
        "test",
        "-e",
        str(flag),
    )
    assert failed.code == 1
    assert failed.json["run_id"] in (await shell("dead", "--job", "broken")).out
    flag.touch()
    again = await shell("retry", failed.json["run_id"], "--wait", "--json")
    assert (again.code, again.json["attempt_number"]) == (0, 2)
    assert (await shell("dead", "--job", "broken")).out == "no dead letters\n"
    assert (await shell("redrive")).code == 2


async def test_dead_letters_are_found_by_the_beginning_of_an_id(shell: Shell) -> None:
    runs = [
        (await shell("submit", "x", "--id", name, "--retries", "0", "--wait", "--json", "--", "false")).json[
            "run_id"
        ]
        for name in ("dead-first", "dead-second")
    ]
    assert runs[0] in (await shell("dead", "--job", "dead-f")).out
    assert (await shell("redrive", "--job", "dead-f", "--json")).json["run_ids"] == runs[:1]
    assert (await shell("redrive", runs[1][:-1], "--json")).json["run_ids"] == runs[1:]


async def test_a_log_is_followed(shell: Shell) -> None:
    created = (await shell("submit", "slow", "--json", "--shell", "echo one; sleep 0.5; echo two")).json
    deadline = time.monotonic() + 10
    while not (runs := (await shell("runs", created["job_id"], "--json")).json["items"]):
        assert time.monotonic() < deadline
    assert (await shell("logs", "-f", runs[0]["run_id"])).out == "one\ntwo\n"
    assert (await shell("logs", runs[0]["run_id"])).out == "one\ntwo\n"


async def test_the_future_is_shown(shell: Shell) -> None:
    await shell(
        "submit", "daily", "--id", "daily", "--cron", "30 2 * * *", "--tz", "Europe/Paris", "--", "true"
    )
    fires = (await shell("next", "daily", "-n", "2", "--json")).json["fires"]
    assert len(fires) == 2
    night = await shell(
        "next", "30 2 * * *", "--tz", "Europe/Paris", "--from", "2026-03-29T00:00:00Z", "-n", "1"
    )
    assert "2026-03-29T01:00:00Z" in night.out
    assert "dst_gap" in night.out
    elsewhere = await shell("next", "daily", "--tz", "Asia/Tokyo", "-n", "1", "--json")
    assert elsewhere.json["fires"][0]["time"] == fires[0]["time"]
    assert elsewhere.json["fires"][0]["local"].endswith("+09:00")
    assert (await shell("next", "daily", "--tz", "Asia/Nowhere")).code == 2


async def test_what_has_run_for_the_last_time_has_no_future(shell: Shell) -> None:
    await shell("submit", "past", "--id", "past", "--wait", "--", "true")
    assert (await shell("next", "past", "--json")).json == {"fires": []}


async def test_files_are_applied_and_pruned(shell: Shell) -> None:
    file = shell.data / "declared.yaml"
    file.write_text(
        "jobs:\n"
        "  - {job_id: declared-b, command: [echo, b], dependencies: [declared-a]}\n"
        "  - {job_id: declared-a, schedule: '0 3 * * *', command: 'echo a'}\n"
    )
    dry = (await shell("apply", "-f", str(file), "--dry-run", "--json")).json
    assert [one["action"] for one in dry["applied"]] == ["created", "created"]
    assert (await shell("job", "declared-a")).code == 3
    first = (await shell("apply", "-f", str(file), "--json")).json
    assert {one["job_id"] for one in first["applied"]} == {"declared-a", "declared-b"}
    again = (await shell("apply", "-f", str(file), "--json")).json
    assert [one["action"] for one in again["applied"]] == ["unchanged", "unchanged"]
    file.write_text("- {job_id: declared-a, schedule: '0 4 * * *', command: 'echo a'}\n")
    changed = await shell("apply", "-f", str(file), "--prune", "--json")
    assert changed.json["applied"][0]["differences"][0]["field"] == "cron_expression"
    assert changed.json["pruned"] == ["declared-b"]
    assert (await shell("job", "declared-b", "--json")).json["status"] == "CANCELLED"
    file.write_text("- {job_id: declared-b, schedule: '0 5 * * *', command: [echo, b]}\n")
    back = (await shell("apply", "-f", str(file), "--json")).json
    assert [one["action"] for one in back["applied"]] == ["created"]
    job = (await shell("job", "declared-b", "--json")).json
    assert (job["status"], job["next_run_at"] is None) == ("SCHEDULED", False)
    file.write_text(
        "- {job_id: declared-c, schedule: 'never', command: x}\n- {job_id: declared-d, command: x, cron: '@daily'}\n"
    )
    partly = await shell("apply", "-f", str(file))
    assert partly.code == 2
    assert "item 1: schedule" in partly.err
    assert (await shell("job", "declared-d")).code == 0
    file.write_text("{command: 'true', cron: '@daily'}")
    assert "needs an id or a name" in (await shell("apply", "-f", str(file))).err


async def test_what_is_declared_by_name_is_found_again(shell: Shell) -> None:
    jobs, flow = shell.data / "named.yaml", shell.data / "named.json"
    jobs.write_text(
        "- {name: after-cleanup, command: 'true', dependencies: [daily_data_cleanup]}\n"
        "- {name: Daily Data Cleanup, cron: '0 0 * * *', command: 'true'}\n"
    )
    flow.write_text('{"name": "named-flow", "nodes": [{"id": "a", "command": "true"}]}')
    first = await shell("apply", "-f", str(jobs), str(flow), "--json")
    assert first.code == 0, first.err
    actions = {one["job_id"]: one["action"] for one in first.json["applied"]}
    assert actions == dict.fromkeys(("daily_data_cleanup", "after-cleanup", "named-flow"), "created")
    again = await shell("apply", "-f", str(jobs), "-f", str(flow), "--json")
    assert {one["action"] for one in again.json["applied"]} == {"unchanged"}


async def test_a_crontab_is_imported(shell: Shell) -> None:
    file = shell.data / "crontab"
    file.write_text(
        "SHELL=/bin/sh\nMAILTO=\nGREETING=hello\n# a comment\n"
        "*/5 2-4 * * MON-FRI /usr/bin/true --all\n@daily cat%first%second\n0 0 * * 7 echo 100\\%\n"
    )
    ended = await shell("import", "crontab", str(file), "--tz", "Europe/Paris", "--json")
    assert ended.code == 0, ended.err
    jobs = [(await shell("job", one["job_id"], "--json")).json for one in ended.json["applied"]]
    assert [job["cron_expression"] for job in jobs] == ["*/5 2-4 * * MON-FRI", "@daily", "0 0 * * 7"]
    assert all(job["timezone"] == "Europe/Paris" and job["overlap"] == "allow" for job in jobs)
    assert all(job["max_retries"] == 0 for job in jobs)
    assert jobs[0]["task"]["env"] == {"SHELL": "/bin/sh", "GREETING": "hello"}
    outputs = [(await shell("run-now", job["job_id"], "--wait")).out for job in jobs[1:]]
    assert outputs == ["first\nsecond\n", "100%\n"]


async def test_lines_that_cannot_be_imported_are_told_and_the_others_are(shell: Shell) -> None:
    text = "@reboot boot\nMAILTO=ops\n0 3 * * * a\nMAILTO=\n0 */2 */2 * 1 b\n0 3 * * * root\tcd / && c\n"
    ended = await shell("import", "crontab", "-", "--set", "refused", "--json", stdin=text)
    assert ended.code == 2, ended.err
    assert [one["where"] for one in ended.json["failed"]] == ["-, line 1", "-, line 3", "-, line 6"]
    assert "MAILTO=ops" in ended.err
    (applied,) = ended.json["applied"]
    job = (await shell("job", applied["job_id"], "--json")).json
    assert job["cron_expression"] == "0 */2 */2 * +1"
    system = await shell(
        "import", "crontab", "-", "--system", "--user", "www-data=web", "--set", "system", "--json",
        stdin="0 3 * * * www-data\tcd / && run\n",
    )  # fmt: skip
    assert system.code == 0, system.err
    job = (await shell("job", system.json["applied"][0]["job_id"], "--json")).json
    assert (job["task"]["command"], job["queue"]) == ("cd / && run", "web")


async def test_a_workflow_is_drawn_run_and_run_again(shell: Shell) -> None:
    flag = _where_jobs_look() / "workflow-repaired"
    file = shell.data / "workflow.yaml"
    file.write_text(
        "workflow_id: etl\nname: etl\nnodes:\n"
        "  - {id: fetch, command: 'echo 7'}\n"
        f"  - {{id: check, command: 'test -e {flag}', depends_on: [fetch]}}\n"
        "  - {id: load, command: [echo, '{{ nodes.fetch.output }}'], depends_on: [check]}\n"
    )
    assert (await shell("workflow", "apply", "-f", str(file))).code == 0
    assert "└▶ check" in (await shell("workflow", "show", "etl")).out
    assert "etl" in (await shell("workflow", "list")).out
    failed = await shell("workflow", "run", "etl", "--wait", "--json")
    assert (failed.code, failed.json["status"]) == (1, "FAILED")
    flag.touch()
    again = await shell("workflow", "rerun", failed.json["workflow_run_id"], "--wait", "--json")
    assert (again.code, again.json["status"]) == (0, "SUCCESS"), again.err
    assert again.json["workflow_run_id"] == failed.json["workflow_run_id"]
    assert [node["output"] for node in again.json["nodes"] if node["id"] == "load"] == [7]
    assert "✓" in (await shell("workflow", "show", again.json["workflow_run_id"])).out
    assert again.json["workflow_run_id"] in (await shell("workflow", "runs", "etl")).out


async def test_tokens_are_made_and_revoked(shell: Shell) -> None:
    made = (await shell("token", "create", "--scope", "read", "--note", "ci", "--json")).json
    assert made["token"].startswith("wc_")
    assert made["token_id"] in (await shell("token", "list")).out
    assert (await shell("token", "revoke", made["token_id"])).code == 0
    assert made["token_id"] not in (await shell("token", "list")).out


async def test_the_fleet_is_shown(shell: Shell) -> None:
    for command in ("executors", "queues", "partitions"):
        ended = await shell(command)
        assert ended.code == 0, ended.err
        assert json.loads((await shell(command, "--json")).out)["items"]
    screen = await shell("top", "--once")
    assert (screen.code, "executors" in screen.out) == (0, True), screen.err
    piped = await shell("top")
    assert (piped.code, "executors" in piped.out) == (0, True), piped.err
    status = await shell("status")
    checks = json.loads((await shell("status", "--json")).out)["checks"]
    assert len(status.out.splitlines()) == len(checks)


async def test_jobs_are_found_by_name_time_and_text_and_sorted(shell: Shell) -> None:
    made = {}
    for name in ("zebra", "aardvark"):
        fields = ("--cron", "@yearly", "--label", "zoo=1", "--json", "--shell", f"echo {name} eats")
        made[name] = (await shell("submit", name, *fields)).json["job_id"]

    async def listed(*words: str) -> list[str]:
        found = await shell("jobs", "--label", "zoo=1", "--json", *words)
        assert found.code == 0, found.err
        return [job["job_id"] for job in found.json["items"]]

    assert await listed("--sort", "name") == [made["aardvark"], made["zebra"]]
    assert await listed("--sort", "created_at") == [made["zebra"], made["aardvark"]]
    assert await listed("--search", "zebra eats") == [made["zebra"]]
    assert await listed("--name", "aardvark") == [made["aardvark"]]
    assert await listed("--until", "2001-01-01T00:00:00Z") == []
    assert len(await listed("--since", "2001-01-01T00:00:00Z")) == 2
    for wrong in (("--sort", "colour"), ("--since", "yesterday")):
        refused = await shell("jobs", *wrong)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1), refused.err


async def test_the_shell_completes_commands_options_and_ids(shell: Shell) -> None:
    job_id = (await shell("submit", "completes", "--cron", "@yearly", "--json", "--shell", "true")).json[
        "job_id"
    ]

    async def completed(*words: str) -> list[str]:
        asked = {"_WATERCLOCK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("waterclock", *words))}
        ended = await shell(environ={**asked, "COMP_CWORD": str(len(words))})
        return ended.out.split()

    assert sorted(await completed("exec")) == ["executor", "executors"]
    assert "--watch" in await completed("jobs", "--w")
    assert await completed("job", job_id[:-2]) == [job_id]
    assert await completed("job", "no-such-job-") == []


async def test_a_backfill_is_followed_to_its_end(shell: Shell) -> None:
    submitted = await shell("submit", "filled", "--cron", "0 3 * * *", "--json", "--shell", "true")
    span = ("--from", "2026-03-01T00:00:00Z", "--to", "2026-03-03T00:00:00Z")
    ended = await shell("backfill", submitted.json["job_id"], *span, "--wait", "--json")
    assert ended.code == 0, ended.err
    assert (ended.json["status"], ended.json["done"], ended.json["total"]) == ("COMPLETED", 2, 2)


async def test_a_command_answers_quickly(shell: Shell) -> None:
    await shell("jobs")
    took = []
    for _ in range(5):
        begun = os.times()
        assert (await shell("jobs")).code == 0
        ended = os.times()
        took.append(ended.children_user + ended.children_system - begun.children_user - begun.children_system)
    assert min(took) < 0.4, took


async def test_a_batch_of_lines_or_an_array_is_defined_and_a_bad_one_fails_alone(shell: Shell) -> None:
    jobs = [{"name": f"of-batch-{n}", "command": "true", "cron": "@yearly"} for n in range(3)]
    file = shell.data / "batch.jsonl"
    file.write_text("\n".join(map(json.dumps, [*jobs, {"name": "", "command": "true"}])))
    ended = await shell("batch", str(file), "--json")
    assert ended.code == 2, ended.err
    assert [line["status"] for line in ended.json["items"]] == ["SCHEDULED"] * 3 + [422]
    assert (await shell("job", ended.json["items"][0]["job_id"], "--json")).json["name"] == "of-batch-0"
    file.write_text(json.dumps(jobs))
    shown = await shell("batch", str(file))
    assert (shown.code, shown.out.count("SCHEDULED")) == (0, 3)
    file.write_text('{"name": ')
    assert "line 1: not JSON" in (await shell("batch", str(file))).err


async def test_a_workflow_is_made_changed_and_cancelled(shell: Shell) -> None:
    file = shell.data / "graph.yaml"
    file.write_text("name: graph\ncron: '@yearly'\nnodes: [{id: a, command: 'true'}]")
    made = await shell("workflow", "create", "-f", str(file))
    workflow_id = made.out.strip()
    assert made.code == 0, made.err
    file.write_text("name: renamed")
    await _listed(shell, workflow_id)
    changed = await shell("workflow", "update", workflow_id[:-2], "-f", str(file), "--json")
    assert (changed.json["workflow_id"], changed.json["name"]) == (workflow_id, "renamed")
    stale = await shell("workflow", "update", workflow_id, "-f", str(file), "--if-version", "1")
    assert stale.code == 1
    cancelled = await shell("workflow", "cancel", workflow_id[:-2], "--note", "no more")
    assert (cancelled.code, "CANCELLED" in cancelled.out, "no more" in cancelled.out) == (0, True, True)
    assert (await shell("workflow", "cancel", "nobody")).code == 3


def _where_jobs_look() -> Path:
    """A directory that jobs can read: the data directory is hidden from them, and they may run as somebody else."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    return directory


async def _listed(shell: Shell, workflow_id: str) -> None:
    """A shortened id is looked up among what the projector has written."""

    async def is_listed() -> bool:
        return workflow_id in (await shell("workflow", "list", "--json")).out

    await eventually(is_listed, f"{workflow_id} is listed")


async def test_a_wave_is_stopped_and_its_nodes_marked(shell: Shell) -> None:
    file = shell.data / "slow.yaml"
    file.write_text("name: slow\ncron: '@yearly'\nnodes: [{id: a, command: sleep 60}]")
    workflow_id = (await shell("workflow", "create", "-f", str(file))).out.strip()
    first = (await shell("workflow", "run", workflow_id)).out.strip()
    marked = await shell(
        "workflow", "mark", first, "a", "--status", "SKIPPED", "--output", '{"rows": 1}', "--json"
    )
    assert marked.code == 0, marked.err
    assert marked.json["workflow_run_id"] == first
    wrong = await shell("workflow", "mark", first, "a", "--status", "FINE")
    assert (wrong.code, "status" in wrong.err) == (2, True)
    second = (await shell("workflow", "run", workflow_id)).out.strip()
    stopped = await shell("workflow", "cancel-run", second)
    assert (stopped.code, second in stopped.out) == (0, True), stopped.err


async def test_what_happened_to_a_run_and_how_its_job_is(shell: Shell) -> None:
    job_id = (await shell("submit", "told", "--json", "--", "true")).json["job_id"]
    run = (await shell("run-now", job_id, "--wait", "--json")).json
    status = (await shell("job-status", job_id, "--json")).json
    assert (status["job_id"], status["latest_run"]["status"]) == (job_id, "SUCCESS")
    assert job_id in (await shell("job-status", job_id)).out
    events = await shell("events", run["run_id"], "--json")
    assert [change["type"] for change in events.json["items"]][-1] == "succeeded", events.err
    assert "succeeded" in (await shell("events", run["run_id"])).out


async def test_an_artifact_is_shown(shell: Shell) -> None:
    file = shell.data / "shown.sh"
    file.write_text("#!/bin/sh\n")
    digest = (await shell("artifact", "push", str(file))).out.strip()
    shown = (await shell("artifact", "show", digest, "--json")).json
    assert (shown["artifact"], shown["size"], shown["name"]) == (digest, 10, "shown.sh")
    assert digest in (await shell("artifact", "show", digest)).out
    assert (await shell("artifact", "show", "sha256:" + "0" * 64)).code == 3
