"""Each NATS user may do what it needs and nothing else: tried with every credential against the real server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from servers.server import Server
from waterclock.core.jetstream.access.permissions import ACCESS, ROLE, ROLES, table
from waterclock.core.jetstream.access.server_config import server_config
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LoginRefused, NotAllowed
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.nats_client import WireClient
from waterclock.core.jetstream.protocol import publish_command
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers, stream_configs
from waterclock.core.runtime.data_directory import ADMIN
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.proto import names

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "security.md"
STREAMS = [config["name"] for config in stream_configs(Layout())]
SERVED = ("scheduler", "executor", "projector", "api")
COMPONENTS = SERVED


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNats]:
    directory = tmp_path_factory.mktemp("permissions")
    nats_server = EmbeddedNats(directory / "nats", log=directory / "nats.log", access=ACCESS)
    server = Server(nats_server)
    server.start()
    try:
        asyncio.run(_lay_out(nats_server.url))
        yield nats_server
    finally:
        server.stop()


async def _lay_out(url: str) -> None:
    async with Connection.open(url, name="layout") as connection:
        await ensure_streams(connection, Layout())
        await ensure_work_consumers(connection, [("default", "light", "0")])


class Tried:
    """One user's connection, and what the server has refused it."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.client = WireClient()
        self.refused: list[str] = []

    async def failed(self, error: Exception) -> None:
        self.refused.append(str(error).lower())

    async def may_publish(self, subject: str, data: bytes = b"") -> bool:
        """By the server's word: a refusal comes before the answer to a ping that was sent after."""
        self.refused.clear()
        self.client.send(publish_command(subject, "", None, data))
        await self.client.flush()
        return not any("violation" in refusal and subject.lower() in refusal for refusal in self.refused)

    async def may_subscribe(self, subject: str) -> bool:
        self.refused.clear()
        subscription = await self.client.subscribe(subject)
        self.client.send(b"")  # what nats-py has gathered goes first; its ping would overtake it
        await self.client.flush()
        allowed = not any("violation" in refusal for refusal in self.refused)
        await subscription.unsubscribe()
        return allowed


@asynccontextmanager
async def connected(embedded: EmbeddedNats, role: str) -> AsyncIterator[Tried]:
    tried = Tried(role)
    await tried.client.connect(
        embedded.url_for(role), inbox_prefix=ROLE[role].inbox, error_cb=tried.failed, allow_reconnect=False
    )
    try:
        yield tried
    finally:
        await tried.client.close()


@pytest.mark.parametrize("role", SERVED)
async def test_nobody_but_an_administrator_changes_streams(embedded: EmbeddedNats, role: str) -> None:
    calls = ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.RESTORE", "STREAM.SNAPSHOT")
    async with connected(embedded, role) as tried:
        for stream in (*STREAMS, "OTHER"):
            for call in calls:
                assert not await tried.may_publish(f"$JS.API.{call}.{stream}"), (call, stream)
            assert not await tried.may_publish(f"$JS.API.STREAM.MSG.DELETE.{stream}")
    async with connected(embedded, ADMIN) as admin:
        found = json.loads((await admin.client.request("$JS.API.STREAM.NAMES")).data)["streams"]
        assert sorted(found) == sorted(STREAMS)


PURGES = {
    "scheduler": {"WORK", "KV_timing", "KV_control"},
    "executor": set(),  # under another name: test_an_executor_…
    "projector": set(),
    "api": {"OBJ_artifacts", "OBJ_logs"},
}


@pytest.mark.parametrize("role", SERVED)
async def test_purging_is_for_those_who_must(embedded: EmbeddedNats, role: str) -> None:
    nothing = json.dumps({"filter": "nothing.has.this.subject"}).encode()
    async with connected(embedded, role) as tried:
        allowed = {
            name for name in STREAMS if await tried.may_publish(f"$JS.API.STREAM.PURGE.{name}", nothing)
        }
    assert allowed == PURGES[role]


@pytest.mark.parametrize("role", SERVED)
async def test_nobody_hears_the_answers_to_others(embedded: EmbeddedNats, role: str) -> None:
    async with connected(embedded, role) as tried:
        assert await tried.may_subscribe(f"{ROLE[role].inbox}.mine.*")
        for other in ROLES:
            if other.name != role:
                assert not await tried.may_subscribe(f"{other.inbox}.>"), other.name
        for broad in (">", "*.>", "*.*", "$JS.>", "$SYS.>", "wc.>"):
            assert not await tried.may_subscribe(broad), broad


SUBJECTS = {
    "wc.jobs.3.backup": {"scheduler", "api"},
    "wc.runs.3": {"scheduler", "executor", "api"},
    "wc.lease.3": {"scheduler"},
    "wc.work.default.light.1.some@run.1": {"scheduler"},
    "wc.stop.executor-1": {"scheduler"},
    "wc.handover": {"scheduler"},
    "wc.claim.3": {"executor"},
    "wc.log.some@run.1.0": {"executor"},
    "wc.tell.executor-1": {"api"},
    "$KV.timing.3.hot.0.a.1": {"scheduler"},
    "$KV.control.snapshot.3.manifest": {"scheduler"},
    "$KV.control.member.scheduler.s": {"scheduler"},
    "$KV.control.member.executor.e": {"executor"},
    "$KV.control.member.projector.p": {"projector"},
    "$KV.control.run.some@run": {"executor"},
    "$KV.control.token.abc": {"api"},
    "$KV.control.namespace.acme": {"api"},
    "$KV.control.alerts.state": {"projector"},
    "$O.artifacts.C.x": {"api"},
    "$O.logs.C.x": {"executor", "api"},
    "$JS.ACK.WORK.default_light_1.1.1.1.1.0": {"executor"},
    "$JS.API.CONSUMER.CREATE.WORK.mine": {"scheduler"},
    "$JS.API.CONSUMER.DELETE.WORK.default_light_1": {"scheduler"},
    "wc.api.CONSUMER.DELETE.WORK.default_light_1": set(),
    "wc.lines": {"scheduler"},
    "$JS.API.CONSUMER.MSG.NEXT.WORK.default_light_1": set(),
    "wc.api.CONSUMER.MSG.NEXT.WORK.default_light_1": {"executor"},
    "wc.api.CONSUMER.CREATE.WORK.mine": set(),
    "wc.api.STREAM.PURGE.WORK": {"executor"},
    "wc.api.STREAM.MSG.GET.JOBS": set(),
    "wc.serve.default.light": {"executor"},
    "wc.quarantine.scheduler.RUNS.1": {"scheduler", "api"},
    "wc.quarantine.api.RUNS.1": {"api"},
    "_R_.some": {"scheduler", "api"},
    "$JS.API.CONSUMER.CREATE.RUNS.mine": {"scheduler", "projector", "api"},
    "$JS.API.CONSUMER.CREATE.JOBS.mine": {"scheduler", "projector", "api"},
    "$JS.API.STREAM.MSG.GET.JOBS": {"scheduler", "projector", "api"},
    "$JS.API.INFO": set(),
    "$JS.API.SERVER.REMOVE": set(),
    "waterclock.v1.jobs.create": set(),
    "$SRV.INFO": set(),
    "$SYS.REQ.SERVER.PING.CONNZ": {"api"},
    "$SYS.REQ.USER.AUTH": set(),
    "anything.else": set(),
}


@pytest.mark.parametrize("role", SERVED)
async def test_each_says_only_what_is_its_to_say(embedded: EmbeddedNats, role: str) -> None:
    async with connected(embedded, role) as tried:
        for subject, speakers in SUBJECTS.items():
            # Not valid in any stream: whether the server lets it pass is the question.
            assert await tried.may_publish(subject, b"") == (role in speakers), subject


HEARD = {
    "wc.claim.3": {"scheduler"},
    "wc.handover": {"scheduler"},
    "wc.stop.all": {"executor"},
    "wc.tell.executor-1": {"executor"},
    "wc.work.default.light.1.>": {"executor"},
    "wc.log.some@run.>": {"api"},
    "waterclock.v1.jobs.create": {"api"},
    "$SRV.INFO.waterclock": {"api"},
    "wc.runs.3": set(),
    "wc.jobs.>": set(),
    "$KV.>": set(),
}


@pytest.mark.parametrize("role", SERVED)
async def test_each_hears_only_what_is_meant_for_it(embedded: EmbeddedNats, role: str) -> None:
    async with connected(embedded, role) as tried:
        for subject, listeners in HEARD.items():
            assert await tried.may_subscribe(subject) == (role in listeners), subject


@pytest.mark.parametrize("role", COMPONENTS)
async def test_a_component_finds_the_streams_as_they_are(embedded: EmbeddedNats, role: str) -> None:
    """What each does first, with its own rights."""
    if role == "executor":
        async with Connection.open(
            embedded.url_for(role), name=role, inbox_prefix=ROLE[role].inbox, api_prefix=names.EXECUTORS_API
        ) as own:
            await stream_state(own, names.RUNS)
    else:
        async with Connection.open(embedded.url_for(role), name=role, inbox_prefix=ROLE[role].inbox) as own:
            await ensure_streams(own, Layout())


async def test_a_component_without_the_right_is_told_at_once(embedded: EmbeddedNats) -> None:
    began = time.monotonic()
    async with Connection.open(
        embedded.url_for("scheduler"), name="scheduler", inbox_prefix=ROLE["scheduler"].inbox
    ) as own:
        with pytest.raises(NotAllowed, match=r"may not publish to \$JS\.API\.STREAM\.UPDATE\.RUNS"):
            await ensure_streams(own, Layout(runs_max_age_days=3))
    assert time.monotonic() - began < 4, "not at the deadline"


async def test_a_stranger_is_not_let_in(embedded: EmbeddedNats) -> None:
    """There is no api here to ask: then nobody comes in but components."""
    for who in ("", "client:guess@", "token:guess-of-a-token@", "admin:guess@"):
        with pytest.raises(LoginRefused, match=r"(?i)authorization"):
            async with Connection.open(f"nats://{who}{embedded.address}", name="stranger", timeout=5):
                pass


def test_the_monitor_is_for_this_machine_only(embedded: EmbeddedNats) -> None:
    config = json.loads(embedded.config_file.read_text())
    assert config["http"].startswith("127.0.0.1:")
    assert config["listen"].startswith("127.0.0.1:")
    assert set(config) & {"no_auth_user", "mqtt", "websocket", "leafnodes", "gateway", "cluster"} == set()
    assert set(config["authorization"]) == {"timeout", "auth_callout"}


def test_users_of_an_older_version_are_gone_and_passwords_stay(tmp_path: Path) -> None:
    directory = tmp_path / "nats"
    directory.mkdir()
    file = directory / "credentials.json"
    file.write_text('{"server_name": "waterclock-1", "users": {"waterclock": "old", "api": "kept"}}')
    EmbeddedNats(directory, log=tmp_path / "nats.log", access=ACCESS).prepare()
    found = json.loads(file.read_text())
    assert found["server_name"] == "waterclock-1"
    assert set(found["users"]) == {role.name for role in ROLES}
    assert found["users"]["api"] == "kept"
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_documentation_shows_what_is_enforced() -> None:
    assert table() in DOCS.read_text(), (
        "docs/security.md is stale: `python -m waterclock.core.jetstream.access.permissions`"
    )


def test_the_cluster_has_the_same_users() -> None:
    assert (ROOT / "deploy" / "nats" / "users.conf").read_text() == f"{server_config()}\n", (
        "deploy/nats/users.conf is stale: `waterclock nats-config`"
    )
