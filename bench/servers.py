"""Servers for what is measured beside waterclock: on loopback, on free ports, gone with the context."""

import http.client
import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.runtime.embedded.nats import EmbeddedNats, nats_server_binary
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import start_blocking
from waterclock.core.runtime.ports import LOOPBACK, Port, reserved_port
from waterclock.core.runtime.processes.process import Process, spawn, stop_blocking

_WITHIN = 30.0


class Server(Struct, frozen=True, kw_only=True):
    url: str
    pid: int


@contextmanager
def nats(directory: Path, *, sync: str | None = "always") -> Iterator[Server]:
    """As `waterclock up` embeds it, but with a `sync_interval` of choice; None is the server's own default."""
    directory.mkdir(parents=True, exist_ok=True)
    with reserved_port() as port:
        jetstream = {"store_dir": str(directory), "limits": {"default_max_consumers": 10_000}}
        config = {
            "listen": f"{LOOPBACK}:{port}",
            "max_payload": 8 * 1024 * 1024,
            "max_pending": 256 * 1024 * 1024,
            "jetstream": jetstream | ({} if sync is None else {"sync_interval": sync}),
        }
        file = directory / "nats.conf"
        file.write_text(json.dumps(config))
        process = spawn([nats_server_binary(), "--config", str(file)], log=directory / "nats.log")
        with _stopped(process):
            _until(lambda: _listens(port), process, "nats-server")
            yield Server(url=f"nats://{LOOPBACK}:{port}", pid=process.pid)


class Node:
    """One nats-server of three, which can be killed and started again where it was."""

    def __init__(self, number: int, directory: Path, ports: Sequence[tuple[int, int, int]]) -> None:
        self.name = f"node-{number}"
        self._port, self._monitor, route = ports[number]
        self._directory = directory / self.name
        self._directory.mkdir(parents=True)
        self._process: Process | None = None
        config = {
            "server_name": self.name,
            "listen": f"{LOOPBACK}:{self._port}",
            "http": f"{LOOPBACK}:{self._monitor}",
            "max_payload": 8 * 1024 * 1024,
            "max_pending": 256 * 1024 * 1024,
            "jetstream": {
                "store_dir": str(self._directory),
                "sync_interval": "always",
                "limits": {"default_max_consumers": 10_000},
            },
            "cluster": {
                "name": "bench",
                "listen": f"{LOOPBACK}:{route}",
                "routes": [f"nats://{LOOPBACK}:{each}" for _, _, each in ports if each != route],
            },
        }
        (self._directory / "nats.conf").write_text(json.dumps(config))

    @property
    def url(self) -> str:
        return f"nats://{LOOPBACK}:{self._port}"

    def start(self) -> None:
        command = [nats_server_binary(), "--config", str(self._directory / "nats.conf")]
        self._process = spawn(command, log=self._directory / "nats.log")

    def wait_until_ready(self) -> None:
        """It takes clients, knows the leader and has caught up with it."""
        assert self._process is not None
        _until(lambda: _listens(self._port) and _healthy(self._monitor), self._process, self.name)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait_blocking(_WITHIN)

    def stop(self) -> None:
        if self._process is not None:
            stop_blocking(self._process)


@contextmanager
def nats_cluster(directory: Path) -> Iterator[dict[str, Node]]:
    """Three nodes by name, every acknowledgement on disk."""
    held = [(Port(), Port(), Port()) for _ in range(3)]
    ports = [(client.secure(), monitor.secure(), route.secure()) for client, monitor, route in held]
    nodes = [Node(number, directory, ports) for number in range(3)]
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_until_ready()
        yield {node.name: node for node in nodes}
    finally:
        for node in nodes:
            node.stop()


@contextmanager
def embedded_nats() -> Iterator[tuple[str, Path]]:
    """Just as `waterclock up` embeds it: the URL of its administrator, and a directory that goes with it."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        embedded = EmbeddedNats(directory / "nats", log=directory / "nats.log", access=ACCESS)
        embedded.prepare()
        process = start_blocking(embedded)
        try:
            yield embedded.url, directory
        finally:
            stop_blocking(process)


@contextmanager
def postgres(directory: Path) -> Iterator[Server]:
    """As `waterclock up` embeds it: fsync, synchronous commit."""
    embedded = EmbeddedPostgres(directory, log=directory.with_suffix(".log"))
    embedded.prepare()
    process = start_blocking(embedded)
    try:
        yield Server(url=embedded.url, pid=process.pid)
    finally:
        stop_blocking(process, embedded.stop_signal)


@contextmanager
def redis(directory: Path) -> Iterator[Server]:
    """Debian's, with the append-only file synced every second: what a production user of a queue has."""
    directory.mkdir(parents=True, exist_ok=True)
    with reserved_port() as port:
        settings = {
            "bind": LOOPBACK,
            "port": str(port),
            "dir": str(directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
        }
        options = [word for key, value in settings.items() for word in (f"--{key}", value)]
        process = spawn(["redis-server", *options], log=directory / "redis.log")
        with _stopped(process):
            _until(lambda: _listens(port), process, "redis-server")
            yield Server(url=f"redis://{LOOPBACK}:{port}/0", pid=process.pid)


@contextmanager
def _stopped(process: Process) -> Iterator[None]:
    try:
        yield
    finally:
        stop_blocking(process)


def _until(condition: Callable[[], bool], process: Process, name: str) -> None:
    deadline = time.monotonic() + _WITHIN
    while not condition():
        if not process.alive or time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not start")
        time.sleep(0.02)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1.0)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1.0).close()
    except OSError:
        return False
    return True
