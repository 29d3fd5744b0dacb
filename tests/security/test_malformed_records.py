"""F2: whoever can write into a stream can spoil a record, and nothing else; an executor cannot write there at all."""

import json
from typing import Any

import pytest

from security.conftest import Attacked, Stranger
from support.waiting import wait_until
from waterclock.core.jetstream.connection import Connection
from waterclock.core.runtime.data_directory import as_role, inbox_of
from waterclock.proto import names

PARTITIONS = 16
GARBAGE = (b"\xff\xfe no text", b"[" * 5000, b'{"events": 3}', b"null")


async def test_nothing_dies_of_what_cannot_be_read(attacked: Attacked) -> None:
    """Garbage in every stream and bucket, by hand: the program goes on, says so, and runs the jobs of everybody."""
    program = attacked.program
    job = program.post("/v1/jobs", {"name": "before", "command": "true", "cron": "@yearly"})["job_id"]
    before = {name: program.processes()[name] for name in ("scheduler", "executor", "projector", "api")}
    async with attacked.as_component("admin") as admin:
        for number, data in enumerate(GARBAGE):
            for partition in range(PARTITIONS):
                await _store(admin, names.runs_subject(partition), data)
                await _store(admin, f"wc.jobs.{partition}.garbage{number}", data)
                await _store(admin, f"$KV.timing.{partition}.hot.0.garbage{number}.1", data)
            for key in (
                f"token.garbage{number}", f"namespace.garbage{number}", f"member.scheduler.garbage{number}",
                f"member.executor.garbage{number}", f"member.projector.garbage{number}",
                f"member.api.garbage{number}", f"artifact.default.garbage{number}",
                f"backfill.default.garbage{number}", f"run.garbage{number}", "dependencies",
            ):  # fmt: skip
                await _store(admin, f"$KV.control.{key}", data)
            await _store(admin, f"wc.work.default.heavy.{names.ALWAYS}.garbage{number}@now.1", data)
            for bucket in ("artifacts", "logs"):
                await _store(admin, f"$O.{bucket}.M.Z2FyYmFnZQ{number}", data)

    for path in ("jobs", "artifacts", "backfills", "tokens", "namespaces", "audit"):
        assert program.http.get(f"/v1/{path}").status_code == 200, path
    after = program.post("/v1/jobs", {"name": "after", "command": "echo lives", "dependencies": []})["job_id"]
    assert program.run_of(after)["status"] == "SUCCESS"
    assert program.http.post(f"/v1/jobs/{job}/runNow").status_code == 202
    assert program.run_of(job)["status"] == "SUCCESS"
    assert program.http.get(f"/v1/jobs/{job}/why").status_code == 200
    assert {name: program.processes()[name] for name in before} == before, program.log()[-3000:]

    def reported() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for record in program.get("/v1/quarantine")["items"]:
            found.setdefault(record["component"], set()).add(record["record_id"].partition(".")[0])
        return found

    wanted = {"scheduler": {"RUNS", "JOBS"}, "projector": {"RUNS", "JOBS"}, "api": {"KV_control"}}
    wait_until(
        lambda: all(wanted[who] <= reported().get(who, set()) for who in wanted), "every reader's report"
    )
    wait_until(lambda: "WORK" in reported().get("executor", set()), "the executor's report")
    check = _check(program.get("/v1/status"), "quarantine")
    assert not check["ok"]
    assert "quarantine list" in check["detail"]


async def test_partitions_are_taken_over_with_them_in_the_log(attacked: Attacked) -> None:
    program = attacked.program
    program.kill("scheduler")
    job = program.post("/v1/jobs", {"name": "later", "command": "true"})["job_id"]
    assert program.run_of(job, 60)["status"] == "SUCCESS"
    wait_until(lambda: _check(program.get("/v1/status"), "schedulers")["ok"], "every partition to be owned")


def test_what_was_seen_is_dropped_and_stays_away(attacked: Attacked) -> None:
    program = attacked.program
    first = program.get("/v1/quarantine")["items"][0]
    shown = program.get(f"/v1/quarantine/{first['record_id']}")
    assert shown["size"] > 0
    assert shown["data"]
    assert first["record_id"] in program.cli("quarantine", "list").stdout
    assert program.cli("quarantine", "drop", first["record_id"]).returncode == 0
    assert program.http.get(f"/v1/quarantine/{first['record_id']}").status_code == 404
    tenant = attacked.token("read", "admin", namespace="acme")
    refused = program.http.get("/v1/quarantine", headers={"Authorization": f"Bearer {tenant['token']}"})
    assert refused.status_code == 403, "a record may be of any namespace"


@pytest.mark.parametrize("role", ["executor", "worker"])
async def test_an_executor_has_no_answer_written_into_the_log(attacked: Attacked, role: str) -> None:
    """The finding: what JetStream answers goes where the asker says. From an executor's account it stays there."""
    url, inbox = (
        as_role(attacked.program.connection["nats"], attacked.program.data, "executor"),
        inbox_of("executor"),
    )
    if role == "worker":
        made = attacked.token("execute", queues=["default"], handlers=["mine"])
        url, inbox = f"nats://token:{made['token']}@{attacked.address}", made["nats_inbox"]
    targets = (
        "wc.jobs.3.forged", "wc.lease.3", "$KV.control.token.forged", "$KV.control.halt",
        "$KV.control.member.scheduler.forged", "$KV.timing.3.fence", "$KV.control.snapshot.3.manifest",
    )  # fmt: skip
    asks = (
        ("wc.api.STREAM.INFO.RUNS", b""),
        ("wc.api.STREAM.MSG.GET.KV_control", b'{"seq": 1}'),
        ("wc.api.CONSUMER.INFO.WORK.default_heavy_1", b""),
        ("wc.api.CONSUMER.MSG.NEXT.WORK.default_heavy_1", b'{"batch": 1, "no_wait": true}'),
        ("wc.claim.3", b"{}"),
        ("wc.serve.default.light", b""),
        ("$KV.control.run.forged", b'{"token_id": "forged", "scopes": ["admin"]}'),
    )
    async with (
        Stranger.connected(url, inbox) as stranger,
        attacked.as_component("admin") as admin,
    ):
        before = {target: await _last(admin, target) for target in targets}
        for target in targets:
            for subject, data in asks:
                assert await stranger.says(subject, data, reply=target), subject
        for target in targets:
            assert await _last(admin, target) == before[target], target


@pytest.mark.parametrize("role", ["executor", "worker"])
async def test_an_executor_says_and_hears_only_what_it_needs(attacked: Attacked, role: str) -> None:
    url, inbox = (
        as_role(attacked.program.connection["nats"], attacked.program.data, "executor"),
        inbox_of("executor"),
    )
    if role == "worker":
        made = attacked.token("execute", queues=["gpu"], handlers=["mine"])
        url, inbox = f"nats://token:{made['token']}@{attacked.address}", made["nats_inbox"]
    async with Stranger.connected(url, inbox) as stranger:
        for subject in (
            "wc.api.CONSUMER.CREATE.WORK.mine", "wc.api.CONSUMER.CREATE.KV_control.mine",
            "wc.api.STREAM.MSG.GET.JOBS", "wc.api.STREAM.MSG.GET.RUNS", "wc.api.STREAM.MSG.GET.OBJ_logs",
            "wc.api.STREAM.DELETE.WORK", "wc.api.STREAM.PURGE.RUNS", "$KV.control.member.scheduler.forged",
            "$KV.control.member.api.forged", "$KV.control.token.forged", "$KV.timing.3.fence", "wc.lease.3",
            "wc.jobs.3.forged", "wc.work.default.light.1.x@now.1", "wc.stop.all", "_INBOX_api.x",
            "$SYS.REQ.SERVER.PING.CONNZ", "waterclock.v1.jobs.list",
        ):  # fmt: skip
            assert not await stranger.says(subject, b"{}"), subject
        for subject in (
            ">",
            "_INBOX.>",
            "_INBOX_api.>",
            "_R_.>",
            "wc.claim.*",
            "wc.runs.*",
            "wc.jobs.>",
            "$SYS.>",
        ):
            assert not await stranger.hears(subject), subject
        if role == "worker":
            for queue in ("default", "gpu=other", "default=mine"):
                for subject in (
                    f"wc.api.CONSUMER.MSG.NEXT.WORK.{queue}_light_1",
                    f"$JS.ACK.WORK.{queue}_light_1.1.1.1.1.0",
                    f"wc.serve.{queue}.light",
                    "wc.api.STREAM.MSG.GET.WORK",
                    "wc.api.STREAM.PURGE.WORK",
                ):
                    assert not await stranger.says(subject, b"{}"), subject
                assert not await stranger.hears(f"wc.work.{queue}.>"), queue
            assert not await stranger.hears("wc.work.>")
            for route in ("gpu", "gpu=mine"):
                assert await stranger.says(
                    f"wc.api.CONSUMER.MSG.NEXT.WORK.{route}_light_1", b'{"no_wait":true}'
                )
                assert await stranger.hears(f"wc.work.{route}.>")


async def _store(admin: Connection, subject: str, data: bytes) -> None:
    answer = json.loads((await admin.request(subject, data, timeout=10)).data)
    assert "error" not in answer, (subject, answer)


async def _last(admin: Connection, subject: str) -> Any:
    stream = {
        "wc.jobs": names.JOBS,
        "wc.lease": names.RUNS,
        "$KV.control": "KV_control",
        "$KV.timing": "KV_timing",
    }
    where = stream[".".join(subject.split(".")[:2])]
    query = json.dumps({"last_by_subj": subject}).encode()
    answer = json.loads((await admin.request(f"$JS.API.STREAM.MSG.GET.{where}", query)).data)
    return answer.get("message", {}).get("seq")


def _check(status: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(check for check in status["checks"] if check["name"] == name)
    return found
