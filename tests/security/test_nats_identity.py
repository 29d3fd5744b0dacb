"""F1: a waterclock token is the NATS credential. Attacks on the running program that must fail, and neighbours."""

import asyncio
import json
from pathlib import Path

import pytest

from security.conftest import Attacked, Stranger
from support.waiting import eventually
from waterclock.api.client.client import Client
from waterclock.api.client.sync import SyncClient
from waterclock.api.errors import Unauthenticated
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LoginRefused
from waterclock.core.runtime.data_directory import resolved, token_url
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Worker
from waterclock.executor.context import Context
from waterclock.executor.service import Executor


async def test_nobody_comes_in_without_a_token(attacked: Attacked) -> None:
    """Nor with the user that everybody shared before."""
    for who in ("", "client:client@", "token:@", "token:guess@", "admin:guess@", "guess@"):
        with pytest.raises(LoginRefused):
            async with Connection.open(f"nats://{who}{attacked.address}", name="stranger", timeout=5):
                pass


async def test_a_new_secret_is_heard_by_nobody_else(attacked: Attacked) -> None:
    """The finding itself: whoever listened to all inboxes saw the answer to somebody's `token create`."""
    spy = attacked.token("read", "submit", "operate", "admin")
    async with Stranger.connected(token_url(spy["token"], attacked.address), spy["nats_inbox"]) as stranger:
        assert await stranger.hears(f"{spy['nats_inbox']}.mine")
        for subject in (
            ">", "*.>", "_INBOX.>", "_INBOX_bootstrap.>", "_INBOX_api.>", "_R_.>", "$SYS.>",
            "$JS.>", "$KV.>", "$O.>", "wc.>", "wc.log.>", "wc.work.>", "waterclock.v1.>", "$SRV.>",
        ):  # fmt: skip
            assert not await stranger.hears(subject), subject


async def test_a_token_says_nothing_but_requests(attacked: Attacked) -> None:
    spy = attacked.token("read", "submit", "operate", "admin")
    async with Stranger.connected(token_url(spy["token"], attacked.address), spy["nats_inbox"]) as stranger:
        assert await stranger.says("waterclock.v1.jobs.list", b"{}")
        for subject in (
            "$JS.API.STREAM.NAMES", "$JS.API.STREAM.DELETE.JOBS", "$JS.API.CONSUMER.CREATE.KV_control.x",
            "wc.api.STREAM.INFO.RUNS", "wc.jobs.0.x", "wc.runs.0", "wc.lease.0", "wc.serve.default.light",
            "$KV.control.token.x", "$KV.control.member.scheduler.x", "$SYS.REQ.SERVER.PING.CONNZ",
            "$SYS.REQ.USER.AUTH", "_R_.x", "_INBOX_bootstrap.x", "$JS.ACK.WORK.x.1.1.1.1.0",
        ):  # fmt: skip
            assert not await stranger.says(subject, b"{}"), subject


async def test_an_answer_goes_nowhere_but_to_who_asked(attacked: Attacked) -> None:
    """A request names where its answer goes. In our account that subject is nobody's: not the log's, nor another's."""
    mine, other = attacked.token("read"), attacked.token("read")
    async with (
        attacked.as_holder(other) as victim,
        attacked.as_holder(mine) as own,
        attacked.as_component("admin") as admin,
    ):
        heard: list[bytes] = []
        await victim.nc.tap(f"{other['nats_inbox']}.>", lambda *message: heard.append(message[3]))
        before = await _last_sequences(admin)
        for reply in ("wc.jobs.0.forged", "wc.runs.0", "$KV.control.token.forged", "$KV.control.halt"):
            own.nc.send(b"PUB waterclock.v1.jobs.list %b 2\r\n{}\r\n" % reply.encode())
        own.nc.send(b"PUB $SRV.PING wc.lease.0 0\r\n\r\n")
        await own.request("waterclock.v1.jobs.list", b"{}")
        found = await _last_sequences(admin)
        assert found["JOBS"] == before["JOBS"]
        for subject in ("$KV.control.token.forged", "$KV.control.halt"):
            asked = await admin.request(
                "$JS.API.STREAM.MSG.GET.KV_control", json.dumps({"last_by_subj": subject}).encode()
            )
            assert "no message found" in asked.data.decode()
        assert heard == []


async def test_who_asks_is_the_servers_word(attacked: Attacked) -> None:
    """A header that the server sets, whatever the client sends."""
    reader = attacked.token("read")
    forged = {"Nats-Request-Info": '{"acc": "CLIENTS", "user": "token:bootstrap"}'}
    async with attacked.as_holder(reader) as own:
        answer = await own.request("waterclock.v1.tokens.list", b"{}", headers=forged)
        assert (answer.headers or {})["Nats-Service-Error-Code"] == "403"
        answer = await own.request("waterclock.v1.tokens.whoami", b"{}", headers=forged)
        assert json.loads(answer.data)["actor"] == f"token:{reader['token_id']}"


async def test_another_tenants_job_is_not_there(attacked: Attacked) -> None:
    ours = attacked.program.post("/v1/jobs", {"name": "ours", "command": "true", "cron": "@yearly"})["job_id"]
    tenant = attacked.token("read", "submit", "operate", namespace="acme")
    async with attacked.as_holder(tenant) as own:
        for method in ("get", "cancel", "pause"):
            answer = await own.request(f"waterclock.v1.jobs.{method}", json.dumps({"job_id": ours}).encode())
            assert (answer.headers or {})["Nats-Service-Error-Code"] == "404", method


async def test_a_revoked_token_hears_nothing_more(attacked: Attacked) -> None:
    made = attacked.token("read")
    async with Stranger.connected(token_url(made["token"], attacked.address), made["nats_inbox"]) as gone:
        assert await gone.hears(f"{made['nats_inbox']}.x")
        assert attacked.program.http.delete(f"/v1/tokens/{made['token_id']}").status_code == 200
        await eventually(lambda: not gone.client.is_connected, "its connection to be ended", 15)
    with pytest.raises(LoginRefused):
        async with Connection.open(token_url(made["token"], attacked.address), name="x", timeout=5):
            pass


async def test_an_expired_token_hears_nothing_more(attacked: Attacked) -> None:
    made = attacked.token("read", expires_in_seconds=3)
    async with Stranger.connected(token_url(made["token"], attacked.address), made["nats_inbox"]) as over:
        await eventually(lambda: not over.client.is_connected, "its connection to be ended", 20)
    with pytest.raises(LoginRefused):
        async with Connection.open(token_url(made["token"], attacked.address), name="x", timeout=5):
            pass


async def test_every_client_of_ours_comes_with_its_token(attacked: Attacked) -> None:
    made = attacked.token("read", "submit")
    url = f"nats://{attacked.address}"
    async with Client.connect(url, token=made["token"], environ={}) as clock:
        job = await clock.jobs.create(name="by token", command="true", cron="@yearly")
    with SyncClient.connect(url, token=made["token"], environ={}) as clock_sync:
        assert clock_sync.jobs.get(job.job_id).name == "by token"
    with pytest.raises(Unauthenticated):
        async with Client.connect(url, token="no-token-of-anybody", environ={}, patience=5):
            pass
    assert attacked.program.cli("jobs").returncode == 0


@pytest.mark.parametrize("others", [0, 19], ids=["few routes", "many routes"])
async def test_a_worker_serves_its_queue_with_a_token(
    attacked: Attacked, tmp_path: Path, others: int
) -> None:
    """And nothing it does there is more than its token allows; but that who has many routes finds out that it may not
    take work of exactly one priority."""
    worker, stop = Worker(queue="gpu"), StopSignal()

    @worker.handler("resize")
    async def resize(context: Context, payload: list[int]) -> int:
        context.log("by a token")
        return sum(payload)

    handlers = ["resize", *(f"other{number}" for number in range(others))]
    made = attacked.token("execute", queues=["gpu"], handlers=handlers)
    settings = Settings(nats_url=f"nats://{attacked.address}", token=made["token"], data=tmp_path)
    executor = Executor(resolved(settings, "executor"), [worker], processes=False)
    running = asyncio.create_task(executor.run(stop))
    try:
        async with asyncio.timeout(20):
            await executor.taking_work.wait()
        for priority in (0,) if others else (0, 49):
            body = {"name": "by token", "handler": "resize", "queue": "gpu", "payload": [1, 2]}
            job = attacked.program.post("/v1/jobs", {**body, "priority": priority})["job_id"]
            run = await asyncio.to_thread(attacked.program.run_of, job, 60)
            assert (run["status"], run["output"]) == ("SUCCESS", 3)
    finally:
        stop.set()
        await running
    tried = [line for line in attacked.program.violations() if made["token_id"] in line]
    asked = [line for line in tried if "CONSUMER.INFO.WORK.gpu=resize_light_p100" in line]
    assert tried == asked
    assert len(asked) == bool(others)


async def test_while_no_api_is_there_who_is_in_stays_and_others_wait(attacked: Attacked) -> None:
    made = attacked.token("read")
    async with attacked.as_holder(made) as own:
        attacked.program.kill("api")
        async with asyncio.timeout(60):
            async with Client.connect(
                f"nats://{attacked.address}", token=made["token"], environ={}, patience=40
            ) as late:
                await late.jobs.list()
        assert own.nc.is_connected
        assert json.loads((await own.request("waterclock.v1.jobs.list", b"{}", timeout=20)).data)["items"]


async def _last_sequences(admin: Connection) -> dict[str, int]:
    found = {}
    for stream in ("JOBS", "KV_control"):
        answer = json.loads((await admin.request(f"$JS.API.STREAM.INFO.{stream}")).data)
        found[stream] = int(answer["state"]["last_seq"])
    return found
