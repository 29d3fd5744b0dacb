"""`waterclock up`: servers and components of one machine, in one terminal."""

import asyncio
import logging
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from waterclock.api.demo import submit_demo
from waterclock.core.jetstream.connection import Connection as Log
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.permissions import PERMISSIONS
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime import structured_logs
from waterclock.core.runtime.data_directory import (
    ADMIN,
    CLIENT,
    Connection,
    DataInUse,
    inbox_of,
    locked,
    private_directory,
    read_connection,
    write_connection,
    write_private,
)
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.ports import LOOPBACK, free_port, is_free
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import EmbeddedServer, ServerProgram
from waterclock.core.runtime.lifecycle import WRONG_USAGE, StopSignal
from waterclock.core.runtime.processes.program import Component, ProgramFailed
from waterclock.core.runtime.processes.supervisor import ChildFailed, Supervisor
from waterclock.core.runtime.settings import Settings, SettingsError, as_environment

PROCESSES = ("nats", "postgres", "scheduler", "executor", "projector", "api")

_KILL_MARGIN = 5.0
"""A component cancels itself when its grace is over; one that cannot even do that is killed this much later."""

_log = logging.getLogger(__name__)


async def up(settings: Settings, *, demo: bool) -> int:
    """Run until SIGINT or SIGTERM. Returns the exit code."""
    structured_logs.setup("up", level=settings.log_level, format=settings.log_format)
    try:
        data = _directory(settings.data)
        with locked(data) as lock:
            return await _Household(settings, data, lock).run(demo=demo)
    except (DataInUse, SettingsError) as error:
        print(f"waterclock up: {error}", file=sys.stderr)
        return WRONG_USAGE
    except ChildFailed as error:
        print(f"waterclock up: {error}; the servers' logs are in {settings.data / 'logs'}", file=sys.stderr)
        return error.exit_code if error.exit_code == WRONG_USAGE else 1
    except (ProgramFailed, LogError, OSError) as error:
        print(f"waterclock up: {error}", file=sys.stderr)
        return 1


def _directory(data: Path) -> Path:
    try:
        directory = private_directory(data.absolute())
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError as error:
        raise SettingsError("data", "a directory to write to", data, error.strerror or str(error)) from error


class _Household:
    """What one `up` runs: embedded servers unless URLs were given, then the services, with the api in front."""

    def __init__(self, settings: Settings, data: Path, lock: int) -> None:
        port = settings.port or free_port()
        if not is_free(port, settings.host):
            raise SettingsError("port", "a free port", port, "another process listens on it")
        alone = settings.nats_url is None if settings.http_loopback is None else settings.http_loopback
        self._settings = msgspec.structs.replace(settings, data=data, port=port, http_loopback=alone)
        self._data = data
        self._lock = lock
        self._stop = StopSignal()
        self._killed_by: signal.Signals | None = None

    async def run(self, *, demo: bool) -> int:
        async with Supervisor(self._data, names=PROCESSES) as supervisor:
            self._listen_for_signals(supervisor)
            stopped = asyncio.create_task(self._stop.wait())
            working = asyncio.create_task(self._work(supervisor, demo=demo))
            await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
                await stopped
            working.cancel()
            stopped.cancel()
            _log.info("stopping: api first, then the services, then the servers")
        return 0 if self._killed_by is None else 128 + self._killed_by

    async def _work(self, supervisor: Supervisor, *, demo: bool) -> None:
        first = read_connection(self._data) is None
        connection = await self._start_servers(supervisor)
        write_connection(self._data, connection)
        if first:
            self._show_token(connection.token)
        await asyncio.gather(supervisor.start(self._services()), supervisor.start([self._api()]))
        print(f"ready: {connection.http}\n", end="", flush=True)  # one write: the services print here too
        if demo:
            await submit_demo(connection)

    async def _start_servers(self, supervisor: Supervisor) -> Connection:
        settings, data = self._settings, self._data
        nats = EmbeddedNats(data / "nats", log=data / "logs" / "nats.log", permissions=PERMISSIONS)
        postgres = EmbeddedPostgres(data / "postgres", log=data / "logs" / "postgres.log")
        embedded: list[EmbeddedServer] = []
        if settings.nats_url is None:
            embedded.append(nats)
        if settings.database_url is None:
            embedded.append(postgres)
        await asyncio.gather(*(asyncio.to_thread(server.prepare) for server in embedded))
        await supervisor.start([ServerProgram(server, inherit=[self._lock]) for server in embedded])
        if settings.nats_url is None:
            await self._lay_out(nats)
        scheme = "http" if settings.http_cert is None else "https"
        host = LOOPBACK if settings.host in ("0.0.0.0", "::") else settings.host
        return Connection(
            http=f"{scheme}://{host}:{settings.port}",
            nats=settings.nats_url or nats.url_for(CLIENT),
            database=settings.database_url or postgres.url,
            token=self._token(),
        )

    async def _lay_out(self, nats: EmbeddedNats) -> None:
        """The streams are made by an administrator: no component has the right to."""
        settings = self._settings
        async with Log.open(nats.url, name="up", inbox_prefix=inbox_of(ADMIN)) as log:
            await ensure_streams(log, Layout(partitions=settings.partitions, replicas=settings.replicas))

    def _token(self) -> str:
        before = read_connection(self._data)
        return self._settings.token or (before.token if before else secrets.token_urlsafe(32))

    def _show_token(self, token: str) -> None:
        """Once in its life: from then on it is in the file only."""
        if self._settings.token is None and self._settings.auth == "on":
            print(f"admin token, kept in {self._data / 'connection.json'}: {token}", flush=True)

    def _services(self) -> list[Component]:
        counts = {
            "scheduler": self._settings.schedulers,
            "executor": self._settings.executors,
            "projector": self._settings.projectors,
        }
        ports = {name: [free_port() for _ in range(count)] for name, count in counts.items()}
        urls = {name: [f"http://{LOOPBACK}:{port}/metrics" for port in mine] for name, mine in ports.items()}
        write_private(self._data / "metrics.json", msgspec.json.encode(urls).decode())
        return [self._component(name, metrics_port=port) for name, mine in ports.items() for port in mine]

    def _api(self) -> Component:
        return self._component("api", metrics_port=None)

    def _component(self, name: str, *, metrics_port: int | None) -> Component:
        settings = msgspec.structs.replace(self._settings, metrics_port=metrics_port)
        return Component(
            name,
            [sys.executable, "-m", "waterclock.api.cli", name],
            {**os.environ, **as_environment(settings)},
            grace=settings.grace_seconds + _KILL_MARGIN,
        )

    def _listen_for_signals(self, supervisor: Supervisor) -> None:
        def received(number: signal.Signals) -> None:
            if not self._stop.is_set():
                self._stop.set()
                return
            _log.warning("told twice to stop: killing what is left", extra={"signal": number.name})
            self._killed_by = number
            supervisor.kill()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, received, number)
