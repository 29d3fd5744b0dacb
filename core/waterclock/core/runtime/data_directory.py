"""How other commands find a running `waterclock up`: two files in its data directory.

`connection.json` says where to connect and with what, `processes.json` which processes there are.

One `waterclock up` for each data directory.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from waterclock.core.runtime.embedded.nats_credentials import as_role, inbox_of
from waterclock.core.runtime.private_file import write_private
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.runtime.tls import with_database_tls

_POLL = 0.05


class DataInUse(Exception):
    """Somebody else runs on this directory."""


@contextmanager
def locked(data: Path, *, patience: float = 10.0) -> Iterator[int]:
    """Hold the directory; yields the lock's descriptor.

    Servers that write below the directory inherit the descriptor, and the lock lasts as long as any holder. So
    when its owner was killed, the next one waits here until the last of its servers is gone.
    """
    descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(descriptor, data, patience)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, data: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode()
            if _is_alive(owner) or time.monotonic() > deadline:
                raise DataInUse(f"{data} is in use by another `waterclock up` (process {owner})") from None
        time.sleep(_POLL)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_EXCL, 0o600)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    http: str
    nats: str
    database: str
    token: str


def write_connection(data: Path, connection: Connection) -> None:
    write_private(data / "connection.json", _json(connection))


def read_connection(data: Path) -> Connection | None:
    """None when nothing has run there yet."""
    file = data / "connection.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Connection)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError("data", "a connection.json that can be read", error, str(file)) from None


def resolved(settings: Settings, component: str) -> Settings:
    """What a component that joins uses: URLs and token that were not given come from `connection.json`.

    To an embedded server it comes as itself, not as the client whose URL is in that file.
    """
    if not (settings.nats_url and settings.database_url and settings.token):
        found = read_connection(settings.data)
        if found is not None:
            settings = msgspec.structs.replace(
                settings,
                nats_url=settings.nats_url or found.nats,
                database_url=settings.database_url or found.database,
                token=settings.token or found.token,
            )
    if settings.nats_url is None:
        where = f"no {settings.data / 'connection.json'}: is `waterclock up` running?"
        raise SettingsError("nats_url", "a URL like nats://host:4222", "nothing", where)
    return with_database_tls(_as_role(settings, settings.nats_url, component))


def _as_role(settings: Settings, given: str, role: str) -> Settings:
    url = as_role(given, settings.data, role)
    if url == given:
        return settings
    return msgspec.structs.replace(settings, nats_url=url, nats_inbox=inbox_of(role))


def write_processes(data: Path, processes: Mapping[str, Sequence[int]]) -> None:
    write_private(data / "processes.json", _json(processes))


def read_processes(data: Path) -> dict[str, list[int]]:
    return msgspec.json.decode((data / "processes.json").read_bytes(), type=dict[str, list[int]])


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
