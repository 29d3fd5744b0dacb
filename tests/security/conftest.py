"""One real `waterclock up` for the module: as it is shipped, and with ways in for every kind of stranger."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.program import Program, program
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.nats_client import WireClient
from waterclock.core.runtime.data_directory import as_role, inbox_of, token_url
from waterclock.proto import names

JOB_PROCESSES = 100
JOB_FILE_BYTES = 8 << 20


class Attacked:
    """The program, and ways in."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @property
    def address(self) -> str:
        return self.program.connection["nats"].rpartition("@")[2]

    def token(self, *scopes: str, **fields: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.program.post("/v1/tokens", {"scopes": list(scopes), **fields})
        return made

    @asynccontextmanager
    async def as_component(self, role: str) -> AsyncIterator[Connection]:
        """With a component's password: whoever has got hold of `credentials.json`, or is the administrator."""
        url = as_role(self.program.connection["nats"], self.program.data, role)
        api = names.EXECUTORS_API if role == "executor" else names.JETSTREAM_API
        async with Connection.open(url, name=role, inbox_prefix=inbox_of(role), api_prefix=api) as connection:
            yield connection

    @asynccontextmanager
    async def as_holder(self, token: dict[str, Any]) -> AsyncIterator[Connection]:
        async with Connection.open(
            token_url(token["token"], self.address), name="tool", inbox_prefix=token["nats_inbox"]
        ) as connection:
            yield connection


class Stranger:
    """A connection of no library of ours that notes what the server refuses it."""

    def __init__(self) -> None:
        self.client = WireClient()
        self.refused: list[str] = []

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str, inbox: str = "_INBOX") -> AsyncIterator["Stranger"]:
        stranger = cls()

        async def failed(error: Exception) -> None:
            stranger.refused.append(str(error).lower())

        await stranger.client.connect(url, inbox_prefix=inbox, error_cb=failed, allow_reconnect=False)
        try:
            yield stranger
        finally:
            await stranger.client.close()

    async def hears(self, subject: str) -> bool:
        """By the server's word: whether it lets us listen there."""
        self.refused.clear()
        subscription = await self.client.subscribe(subject)
        self.client.send(b"")
        await self.client.flush()
        allowed = not any("violation" in refusal for refusal in self.refused)
        await subscription.unsubscribe()
        return allowed

    async def says(self, subject: str, data: bytes = b"", reply: str = "") -> bool:
        """Whether the server lets us publish there."""
        self.refused.clear()
        to = f"{subject} {reply}" if reply else subject
        self.client.send(b"PUB %b %d\r\n%b\r\n" % (to.encode(), len(data), data))
        await self.client.flush()
        return not any("violation" in refusal for refusal in self.refused)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    running = Program(
        tmp_path_factory.mktemp("security") / "data", environment={"WATERCLOCK_LOG_FORMAT": "json"}
    )
    running.start()
    try:
        yield Attacked(running)
    finally:
        assert running.stop() == 0, running.log()[-3000:]


@pytest.fixture(scope="package")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One for all tests of this folder that ask for it, with limits that can be reached in a test."""
    environment = {
        "WATERCLOCK_RUN_AS": "",
        "WATERCLOCK_JOB_PROCESSES": str(JOB_PROCESSES),
        "WATERCLOCK_JOB_PROCESSES_MAX": str(JOB_PROCESSES),
        "WATERCLOCK_JOB_FILE_BYTES": str(JOB_FILE_BYTES),
        "WATERCLOCK_JOB_FILE_BYTES_MAX": str(2 * JOB_FILE_BYTES),
        "WATERCLOCK_HTTP_CONNECTIONS": "300",
        "WATERCLOCK_STREAMS_PER_TOKEN": "5",
        "WATERCLOCK_METRICS_ACCESS": "token",
    }
    with program(tmp_path_factory.mktemp("shipped") / "data", environment=environment) as running:
        yield running
