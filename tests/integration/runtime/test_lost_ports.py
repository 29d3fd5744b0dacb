"""A server whose port another process takes, at whatever moment, takes the next one; whoever uses it follows."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
import nats
import pytest

from integration.runtime.test_up import Running, connection_of, up
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.runtime.data_directory import read_processes
from waterclock.core.runtime.embedded import nats as embedded_nats
from waterclock.core.runtime.embedded import postgres as embedded_postgres
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import EmbeddedServer, ServerProgram
from waterclock.core.runtime.ports import LOOPBACK
from waterclock.core.runtime.processes.process import Process, spawn
from waterclock.core.runtime.processes.supervisor import Supervisor

Make = Callable[[Path], EmbeddedServer]


class Thief:
    """Another process, as far as our servers can tell: it listens on their ports."""

    def __init__(self) -> None:
        self._scope = ExitStack()

    def take(self, port: int) -> bool:
        """Whether it could be had."""
        try:
            self._scope.enter_context(socket.create_server((LOOPBACK, port)))
        except OSError:
            return False
        return True

    def give_back(self) -> None:
        self._scope.close()


@pytest.fixture
def thief() -> Iterator[Thief]:
    taker = Thief()
    yield taker
    taker.give_back()


def a_nats(directory: Path) -> EmbeddedNats:
    return EmbeddedNats(directory / "nats", log=directory / "nats.log", access=ACCESS)


def a_postgres(directory: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(directory / "postgres", log=directory / "postgres.log")


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


async def serves(url: str) -> bool:
    if url.startswith("nats:"):
        client = await nats.connect(url)
        await client.close()
    else:
        connection = await asyncpg.connect(url)
        await connection.close()
    return True


def robbed(
    monkeypatch: pytest.MonkeyPatch,
    server: EmbeddedServer,
    thief: Thief,
    ports: Callable[[], int],
    times: int,
) -> list[int]:
    """Between the choice of the port and the start of the process somebody takes it; the ports taken."""
    taken: list[int] = []

    def spawn_too_late(*arguments: Any, **options: Any) -> Process:
        if len(taken) < times:
            assert thief.take(ports())
            taken.append(ports())
        return spawn(*arguments, **options)

    module = embedded_nats if isinstance(server, EmbeddedNats) else embedded_postgres
    monkeypatch.setattr(module, "spawn", spawn_too_late)
    return taken


@pytest.mark.parametrize("make", [a_nats, a_postgres])
async def test_a_port_taken_between_choice_and_start(
    make: Make, tmp_path: Path, thief: Thief, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = make(tmp_path)
    taken = robbed(monkeypatch, embedded, thief, lambda: port_of(embedded.url), times=4)
    server = Server(embedded)
    server.start()
    try:
        assert len(set(taken)) == 4
        assert port_of(server.url) not in taken
        assert await serves(server.url)
    finally:
        server.stop()


async def test_a_monitor_port_taken_between_choice_and_start(
    tmp_path: Path, thief: Thief, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = a_nats(tmp_path)
    taken = robbed(monkeypatch, embedded, thief, lambda: port_of(embedded.monitor_url), times=1)
    server = Server(embedded)
    before = server.url
    server.start()
    try:
        assert port_of(embedded.monitor_url) not in taken
        assert server.url == before, "the port that nobody took is kept"
        assert await serves(server.url)
    finally:
        server.stop()


@pytest.mark.parametrize("make", [a_nats, a_postgres])
async def test_a_port_taken_while_the_server_was_down(make: Make, tmp_path: Path, thief: Thief) -> None:
    server = Server(make(tmp_path))
    server.start()
    before = port_of(server.url)
    server.kill()
    assert thief.take(before)
    server.start()
    try:
        assert port_of(server.url) != before
        assert await serves(server.url)
        after = server.url
    finally:
        server.stop()
    thief.give_back()
    again = Server(make(tmp_path))
    assert again.url == after, "the new port is the one that is kept now"


async def test_another_server_of_the_same_kind_is_not_taken_for_ours(tmp_path: Path) -> None:
    """It answers on our port just as ours would, also to whoever asks whether it is ready."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for make in (a_nats, a_postgres):
        first, second = make(theirs), Server(make(ours))
        second.start()
        second.kill()  # Postgres leaves a file that says it is ready
        (theirs / first.name).mkdir(parents=True)
        (theirs / first.name / "port").write_text(str(port_of(second.url)))
        other = Server(first)
        other.start()
        try:
            assert other.url.rpartition(":")[2] == second.url.rpartition(":")[2]
            second.start()
            assert port_of(second.url) != port_of(other.url)
            assert await serves(second.url)
        finally:
            second.stop()
            other.stop()


@pytest.mark.parametrize("make", [a_nats, a_postgres])
async def test_a_supervised_server_never_gives_up_for_a_port(
    make: Make, tmp_path: Path, thief: Thief, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = make(tmp_path)
    embedded.prepare()
    urls: list[str] = []
    taken = robbed(monkeypatch, embedded, thief, lambda: port_of(embedded.url), times=5)
    async with Supervisor(tmp_path, names=[], ready=lambda: urls.append(embedded.url)) as supervisor:
        await supervisor.start([ServerProgram(embedded)])
        assert len(taken) == 5
        [url] = urls
        assert await serves(url)

        [pid] = read_processes(tmp_path)[embedded.name]
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: thief.take(port_of(url)), what="the port")
        await eventually(lambda: len(urls) == 2, within=20, what="the server's return")
        assert urls[1] != url
        assert await serves(urls[1])


async def test_one_life_of_up_among_thieves(tmp_path: Path, thief: Thief) -> None:
    """The api, Postgres and nats-server each lose their port while they are down; then all do while `up` is down."""
    data = tmp_path / "data"
    async with up(data) as running:
        await loses_its_port(running, thief, "api", "http", {"api"})
        await loses_its_port(running, thief, "postgres", "database", {"postgres", "projector", "api"})
        await loses_its_port(running, thief, "nats", "nats", set(running.pids()) - {"postgres"})
        before = connection_of(data)
    for name in ("nats/port", "nats/monitor_port", "postgres/port"):
        assert thief.take(int((data / name).read_text()))
    async with up(data):
        assert not {before["nats"], before["database"]} & set(connection_of(data).values())
        await until_it_works(data)


async def loses_its_port(
    running: Running, thief: Thief, name: str, address: str, restarted: set[str]
) -> None:
    before, pids = connection_of(running.data), running.pids()
    os.kill(pids[name], signal.SIGKILL)
    await eventually(lambda: thief.take(port_of(before[address])), what=f"the port of {name}")
    await eventually(lambda: connection_of(running.data)[address] != before[address], within=30, what=address)
    moved = {address, "database_reader"} if address == "database" else {address}
    found = connection_of(running.data)
    assert {key for key, value in found.items() if value != before[key]} == moved
    await until_it_works(running.data)
    assert {other for other, pid in running.pids().items() if pid != pids[other]} == restarted


async def until_it_works(data: Path) -> None:
    """A job is accepted, runs and is shown: every component and both servers are needed for that."""
    connection = connection_of(data)
    headers = {"Authorization": f"Bearer {connection['token']}"}
    with httpx.Client(base_url=connection["http"], headers=headers, trust_env=False) as http:
        jobs: list[str] = []

        def submitted() -> bool:
            answer = _ask(http, "POST", "/v1/jobs", {"name": "hello", "command": "true"})
            jobs.extend([answer["job_id"]] if "job_id" in answer else [])
            return bool(jobs)

        def succeeded() -> bool:
            latest = _ask(http, "GET", f"/v1/jobs/{jobs[0]}/status").get("latest_run")
            return latest is not None and latest["status"] == "SUCCESS"

        await eventually(submitted, within=40, what="a job to be accepted")
        await eventually(succeeded, within=40, what="the job to succeed")


def _ask(http: httpx.Client, method: str, path: str, body: object = None) -> dict[str, Any]:
    """Nothing while it cannot be answered."""
    try:
        answer = http.request(method, path, json=body)
    except httpx.TransportError:
        return {}
    return dict(answer.json()) if answer.is_success else {}
