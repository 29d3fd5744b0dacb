"""Servers for what is measured beside waterclock: on loopback, on free ports, gone with the context."""

import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from waterclock.core.jetstream.permissions import PERMISSIONS
from waterclock.core.runtime.embedded.nats import EmbeddedNats, nats_server_binary
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import start_blocking
from waterclock.core.runtime.ports import LOOPBACK, reserved_port
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


@contextmanager
def embedded_nats() -> Iterator[tuple[str, Path]]:
    """Just as `waterclock up` embeds it: the URL of its administrator, and a directory that goes with it."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        embedded = EmbeddedNats(directory / "nats", log=directory / "nats.log", permissions=PERMISSIONS)
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


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1.0).close()
    except OSError:
        return False
    return True
