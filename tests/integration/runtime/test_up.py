"""`waterclock up` from outside: ready, found by its files, alone on its data, gone when told, back after a kill."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from support.waiting import eventually, is_alive
from waterclock.core.runtime.data_directory import read_processes
from waterclock.core.runtime.embedded.nats import nats_server_binary
from waterclock.core.runtime.ports import LOOPBACK, reserved_port
from waterclock.core.runtime.processes.process import Process, spawn

UP = [sys.executable, "-m", "waterclock.api.cli", "up", "--port", "0", "--data"]


class Running:
    def __init__(self, data: Path, process: Process, log: Path) -> None:
        self.data = data
        self.process = process
        self.log = log

    def pids(self) -> dict[str, int]:
        return {name: pid for name, pids in read_processes(self.data).items() for pid in pids}

    def replaced(self, name: str, pid: int) -> bool:
        return read_processes(self.data)[name] not in ([], [pid])


@asynccontextmanager
async def up(data: Path, **environment: str) -> AsyncIterator[Running]:
    log = data.with_name("up.log")
    log.unlink(missing_ok=True)
    process = spawn([*UP, str(data)], log=log, env={**os.environ, **environment})
    running = Running(data, process, log)
    try:
        await eventually(lambda: "ready: " in log.read_text() or not process.alive, within=60, what="ready")
        assert process.alive, log.read_text()
        yield running
    finally:
        if process.alive:
            process.send(signal.SIGTERM)
        await process.wait()


async def test_one_life_of_up(tmp_path: Path) -> None:
    """Start; look; lose each process once; lose all at once; start again; stop."""
    data = tmp_path / "data"
    async with up(data) as running:
        before = connection_of(data)
        assert before["token"] not in running.log.read_text(), "a log is no terminal"
        await _is_as_the_contract_says(running)
        await _refuses_a_second(running)
        for name, pid in running.pids().items():
            os.kill(pid, signal.SIGKILL)
            await eventually(partial(running.replaced, name, pid), what=f"a new {name}")
        await eventually(
            lambda: _status(f"{connection_of(data)['http']}/readyz") == 200, within=20, what="readiness"
        )
        for pid in [running.process.pid, *running.pids().values()]:
            os.kill(pid, signal.SIGKILL)

    async with up(data) as running:
        assert {**connection_of(data), "http": None} == {**before, "http": None}
        assert before["token"] not in running.log.read_text()
        pids = running.pids()
        running.process.send(signal.SIGINT)
        assert await asyncio.wait_for(running.process.wait(), 30) == 0
        assert not any(map(is_alive, pids.values()))
        assert not any(read_processes(data).values())


async def test_servers_that_are_there_are_used(tmp_path: Path, nats_url: str, database_url: str) -> None:
    data = tmp_path / "data"
    async with up(data, WATERCLOCK_NATS_URL=nats_url, WATERCLOCK_DATABASE_URL=database_url) as running:
        assert set(running.pids()) == {"scheduler", "executor", "projector", "api"}
        assert connection_of(data)["nats"] == nats_url
        assert connection_of(data)["database"] == database_url
        assert not (data / "nats").exists()
        assert not (data / "postgres").exists()


async def test_a_server_without_users_is_used_as_it_is(tmp_path: Path, database_url: str) -> None:
    """`nats-server -js` as anybody starts it: no accounts, nobody asks for a token."""
    data = tmp_path / "data"
    with reserved_port() as port:
        command = [nats_server_binary(), "-js", "-sd", str(tmp_path / "js"), "-a", LOOPBACK, "-p", str(port)]
        server = spawn(command, log=tmp_path / "nats.log")
    try:
        url = f"nats://{LOOPBACK}:{port}"
        async with up(data, WATERCLOCK_NATS_URL=url, WATERCLOCK_DATABASE_URL=database_url):
            words = [
                "-m",
                "waterclock.api.cli",
                "submit",
                "--data",
                str(data),
                "--wait",
                "hello",
                "--",
                "echo",
                "hello",
            ]
            ended = await asyncio.to_thread(
                subprocess.run, [sys.executable, *words], capture_output=True, text=True
            )
            assert ended.returncode == 0, ended.stderr
    finally:
        server.send(signal.SIGTERM)
        await server.wait()


async def test_a_worker_that_is_not_there_ends_it_with_2_and_a_line(tmp_path: Path, nats_url: str) -> None:
    words = [sys.executable, "-m", "waterclock.api.cli", "executor", "--worker", "nowhere:worker"]
    command = [*words, "--nats-url", nats_url, "--data", str(tmp_path)]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert "worker: expected a module that can be imported" in line

    household = [*UP, str(tmp_path / "data"), "--worker", "nowhere:worker"]
    ended = await asyncio.to_thread(subprocess.run, household, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_data_that_cannot_be_written_end_it_with_2_and_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = subprocess.run([*UP, str(tmp_path / "file")], capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("waterclock up: data: expected a directory to write to, found ")


async def _is_as_the_contract_says(running: Running) -> None:
    data, connection = running.data, connection_of(running.data)
    assert set(connection) == {"http", "nats", "nats_inbox", "database", "database_reader", "token"}
    assert stat.S_IMODE((data / "connection.json").stat().st_mode) == 0o600
    assert running.log.read_text().count(f"ready: {connection['http']}\n") == 1
    assert set(read_processes(data)) == {"nats", "postgres", "scheduler", "executor", "projector", "api"}
    assert len(running.pids()) == 6
    assert all(map(is_alive, running.pids().values()))
    assert await asyncio.to_thread(_status, f"{connection['http']}/readyz") == 200
    for [url] in json.loads((data / "metrics.json").read_text()).values():
        assert await asyncio.to_thread(_status, url) == 200


async def _refuses_a_second(running: Running) -> None:
    second = await asyncio.to_thread(subprocess.run, [*UP, str(running.data)], capture_output=True, text=True)
    assert second.returncode == 2
    assert f"is in use by another `waterclock up` (process {running.process.pid})" in second.stderr


def connection_of(data: Path) -> dict[str, str]:
    return dict(json.loads((data / "connection.json").read_text()))


def _status(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
