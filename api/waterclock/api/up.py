"""`waterclock up`: servers and components of one machine, in one terminal. And `waterclock setup`, for servers of your
own."""

import asyncio
import logging
import secrets
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from shutil import disk_usage

import msgspec

from waterclock.api.console.sign_in_link import sign_in_link
from waterclock.api.demo import submit_demo
from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.jetstream.connection import Connection as Log
from waterclock.core.jetstream.connection import open_log
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime import structured_logs
from waterclock.core.runtime.data_directory import (
    ADMIN,
    BOOTSTRAP,
    ConnectionInfo,
    DataInUse,
    inbox_of,
    locked,
    private_directory,
    read_connection,
    token_url,
    write_connection,
    write_private,
)
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import EmbeddedServer, ServerProgram
from waterclock.core.runtime.lifecycle import WRONG_USAGE, StopSignal
from waterclock.core.runtime.own_process import close_to_inspection, environment_for, needed_by
from waterclock.core.runtime.ports import LOOPBACK, Port, is_free
from waterclock.core.runtime.processes.program import Component, ProgramFailed
from waterclock.core.runtime.processes.supervisor import ChildFailed, Supervisor
from waterclock.core.runtime.settings import (
    SECRETS,
    Settings,
    SettingsError,
    as_environment,
    environment_variable,
    secrets_of,
)
from waterclock.core.runtime.tasks import supervised
from waterclock.core.store.factory import ensure_bucket
from waterclock.core.store.secret_keys import SecretKeys
from waterclock.core.store.store import StoreError

_COMPONENTS = ("scheduler", "executor", "projector", "api")
_USERS_OF_THE_DATABASE = ("projector", "api")
PROCESSES = ("nats", "postgres", *_COMPONENTS)

_SHARE_OF_DISK = 0.75
"""Of what is free at the first start, that the log may take."""
_LEADER_SECONDS = 60.0
"""A cluster that was just started answers once it has a leader."""
_KILL_MARGIN = 5.0
"""A component cancels itself when its grace is over; one that cannot even do that is killed this much later."""

_log = logging.getLogger(__name__)


async def up(settings: Settings, *, demo: bool) -> int:
    """Run until SIGINT or SIGTERM. Returns the exit code."""
    close_to_inspection()
    structured_logs.setup("up", level=settings.log_level, format=settings.log_format)
    try:
        data = _directory(settings.data)
        with locked(data) as lock:
            return await _Installation(settings, data, lock).run(demo=demo)
    except (DataInUse, SettingsError) as error:
        print(f"waterclock up: {error}", file=sys.stderr)
        return WRONG_USAGE
    except ChildFailed as error:
        print(f"waterclock up: {error}; the servers' logs are in {settings.data / 'logs'}", file=sys.stderr)
        return error.exit_code if error.exit_code == WRONG_USAGE else 1
    except (ProgramFailed, LogError, OSError) as error:
        print(f"waterclock up: {error}", file=sys.stderr)
        return 1


async def setup(settings: Settings) -> None:
    """Make what must be there before the first component starts: the streams, and the store's bucket.

    Needs a NATS user that may make streams. Done again it changes what differs, as after an upgrade.
    """
    async with open_log(settings, name="setup") as log:
        layout = Layout(
            partitions=settings.partitions, replicas=settings.replicas, total_bytes=settings.log_bytes
        )
        await log.api("STREAM.NAMES", timeout=_LEADER_SECONDS)
        await ensure_streams(log, layout)
    await ensure_bucket(settings)


async def _find_bucket(settings: Settings) -> None:
    """The store's bucket, if there is one, is made where it is missing; a store that cannot be used is no store."""
    try:
        await ensure_bucket(settings)
    except StoreError as error:
        raise SettingsError("store", "a bucket to keep things in", settings.store, str(error)) from error


def _directory(data: Path) -> Path:
    try:
        directory = private_directory(data.absolute())
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError as error:
        raise SettingsError("data", "a directory to write to", data, error.strerror or str(error)) from error


async def _show_console(connection: ConnectionInfo) -> None:
    """To click on: good once, and for ten minutes. `waterclock console` makes another."""
    link = await asyncio.to_thread(sign_in_link, connection)
    shown = f"{connection.http}/ (sign in with `waterclock console`)" if link is None else link
    print(f"console: {shown}\n", end="", flush=True)


class _Installation:
    """What one `up` runs: embedded servers unless URLs were given, then the services, with the api in front."""

    def __init__(self, settings: Settings, data: Path, lock: int) -> None:
        if settings.port and not is_free(settings.port, settings.host):
            raise SettingsError("port", "a free port", settings.port, "another process listens on it")
        alone = settings.nats_url is None if settings.http_loopback is None else settings.http_loopback
        self._settings = settings = msgspec.structs.replace(settings, data=data, http_loopback=alone)
        self._data = data
        self._lock = lock
        self._stop = StopSignal()
        self._killed_by: signal.Signals | None = None
        self._nats = EmbeddedNats(data / "nats", log=data / "logs" / "nats.log", access=ACCESS)
        self._postgres = EmbeddedPostgres(data / "postgres", log=data / "logs" / "postgres.log")
        self._port = None if settings.port else Port(host=settings.host)
        self._metrics_ports = {
            "scheduler": [Port(host=settings.host) for _ in range(settings.schedulers)],
            "executor": [Port(host=settings.host) for _ in range(settings.executors)],
            "projector": [Port(host=settings.host) for _ in range(settings.projectors)],
        }
        self._supervisor = Supervisor(data, names=PROCESSES, ready=self._follow_moved_servers)
        self._connection: ConnectionInfo | None = None

    async def run(self, *, demo: bool) -> int:
        async with self._supervisor:
            self._listen_for_signals()
            async with supervised() as tasks:
                tasks.spawn(self._start(demo=demo), name="start of servers and components")
                await self._stop.wait()
            _log.info("stopping: api first, then the services, then the servers")
        return 0 if self._killed_by is None else 128 + self._killed_by

    async def _start(self, *, demo: bool) -> None:
        first = read_connection(self._data) is None
        await self._start_servers()
        SecretKeys(self._settings).ensure()
        token = self._token()
        for port in (self._port, *(port for ports in self._metrics_ports.values() for port in ports)):
            if port is not None:
                port.secure()
        self._write_addresses(self._addresses(token))
        if first:
            self._show_token(token)
        start = self._supervisor.start
        await asyncio.gather(start(self._services()), start([self._api()]))
        connection = self._addresses(token)
        print(f"ready: {connection.http}\n", end="", flush=True)  # one write: the services print here too
        await _show_console(connection)
        if demo:
            await submit_demo(connection)

    async def _start_servers(self) -> None:
        embedded: list[EmbeddedServer] = []
        if self._settings.nats_url is None:
            embedded.append(self._nats)
        if self._settings.database_url is None:
            embedded.append(self._postgres)
        await asyncio.gather(
            _find_bucket(self._settings), *(asyncio.to_thread(server.prepare) for server in embedded)
        )
        await self._supervisor.start([ServerProgram(server, inherit=[self._lock]) for server in embedded])
        if self._settings.nats_url is None:
            await self._create_streams()

    async def _create_streams(self) -> None:
        """As an administrator: no component has the right to."""
        settings = self._settings
        async with Log.open(self._nats.url, name="up", inbox_prefix=inbox_of(ADMIN)) as log:
            await ensure_streams(
                log,
                Layout(
                    partitions=settings.partitions,
                    replicas=settings.replicas,
                    total_bytes=settings.log_bytes or int(_SHARE_OF_DISK * disk_usage(self._data).free),
                    only_unlimited=settings.log_bytes is None,
                ),
            )

    def _addresses(self, token: str, inbox: str | None = None) -> ConnectionInfo:
        settings = self._settings
        scheme = "http" if settings.http_cert is None else "https"
        host = LOOPBACK if settings.host in ("0.0.0.0", "::") else settings.host
        port = settings.port if self._port is None else self._port.number
        return ConnectionInfo(
            http=f"{scheme}://{host}:{port}",
            nats=settings.nats_url or token_url(token, self._nats.address),
            database=settings.database_url or self._postgres.url,
            database_reader=self._postgres.reader_url if settings.database_url is None else None,
            token=token,
            nats_inbox=settings.nats_inbox if settings.nats_url else inbox or inbox_of(BOOTSTRAP),
        )

    def _follow_moved_servers(self) -> None:
        """A server or component that was restarted may have another port, should somebody have taken its own.

        Called whenever one of them is ready. Components read `connection.json` when they start.
        """
        before = self._connection
        if before is None:
            return
        now = self._addresses(before.token, before.nats_inbox)
        kept = read_connection(self._data)  # its token may have been replaced since: that is no move
        try:
            self._write_addresses(now if kept is None else self._addresses(kept.token, kept.nats_inbox))
        except OSError as error:
            _log.error("cannot write connection.json", extra={"reason": str(error)})
        if now == before:
            return
        _log.warning("a port was taken by another process: the address has changed", extra={"http": now.http})
        if now.nats != before.nats:
            self._supervisor.restart(_COMPONENTS)
        elif now.database != before.database:
            self._supervisor.restart(_USERS_OF_THE_DATABASE)

    def _write_addresses(self, connection: ConnectionInfo) -> None:
        self._connection = connection
        write_connection(self._data, connection)
        urls = {
            name: [f"http://{LOOPBACK}:{port.number}/metrics" for port in ports]
            for name, ports in self._metrics_ports.items()
        }
        write_private(self._data / "metrics.json", msgspec.json.encode(urls).decode())

    def _token(self) -> str:
        before = read_connection(self._data)
        return self._settings.token or (before.token if before else secrets.token_urlsafe(32))

    def _show_token(self, token: str) -> None:
        """Once in its life, and to people only: what is not a terminal may be a log. From then on it is in the file."""
        if self._settings.token is None and self._settings.auth == "on":
            shown = token if sys.stdout.isatty() else "not shown, as this is no terminal"
            print(f"admin token, kept in {self._data / 'connection.json'}: {shown}", flush=True)

    def _services(self) -> list[Component]:
        variable = environment_variable("metrics_port")
        return [
            self._component(name, {variable: port})
            for name, ports in self._metrics_ports.items()
            for port in ports
        ]

    def _api(self) -> Component:
        ports = {} if self._port is None else {environment_variable("port"): self._port}
        return self._component("api", ports)

    def _component(self, name: str, ports: Mapping[str, Port]) -> Component:
        settings = needed_by(name, msgspec.structs.replace(self._settings, metrics_port=None))
        return Component(
            name,
            [sys.executable, "-m", "waterclock.api.cli", name],
            {**environment_for(name), **as_environment(settings, without=SECRETS)},
            grace=settings.grace_seconds + _KILL_MARGIN,
            ports=ports,
            secrets=secrets_of(settings),
        )

    def _listen_for_signals(self) -> None:
        def received(number: signal.Signals) -> None:
            if not self._stop.is_set():
                self._stop.set()
                return
            _log.warning("told twice to stop: killing what is left", extra={"signal": number.name})
            self._killed_by = number
            self._supervisor.kill()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, received, number)
