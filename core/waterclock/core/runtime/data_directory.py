"""What is in a data directory beside the servers' own files, and how other commands find a running `waterclock up`.

lock                    held by one `waterclock up`, and by the servers it has started
connection.json         where to connect, and with what token
processes.json          which processes there are
nats/credentials.json   the passwords of the embedded nats-server's users, one for each role, and the key with which
                        the api signs who else may connect

All of them are for their owner only, and are replaced whole or not at all.
"""

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from waterclock.core.runtime.account_keys import new_issuer_seed
from waterclock.core.runtime.own_process import forget_secrets, needed_by
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.runtime.tls import with_database_tls
from waterclock.proto import names

ADMIN = "admin"
TOKEN_USER = "token"
"""The NATS user of everybody who comes with a waterclock token as the password."""
BOOTSTRAP = "bootstrap"
"""The id of the token that `connection.json` holds."""

_CREDENTIALS = "credentials.json"
_LOCK_POLL = 0.05
_ANY_INBOX = "_INBOX"
_OUTSIDE_OF_LOG = (TOKEN_USER, "executor")
"""Users of accounts that only import JetStream."""


def write_private(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace `path` atomically, mode 0600: a reader sees the old content or the new. One writer at a time.

    `durable`: it is on the disk when this returns, as what cannot be made again must be.
    """
    growing = path.with_name(f".{path.name}.new")
    growing.unlink(missing_ok=True)
    with open(growing, "w", opener=_private) as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(growing, path)
    if durable:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_EXCL, 0o600)


def private_directory(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


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
        time.sleep(_LOCK_POLL)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


class ConnectionInfo(msgspec.Struct, frozen=True, kw_only=True):
    http: str
    nats: str
    database: str
    token: str
    database_reader: str | None = None
    """A login that may only read; None for a database of one's own, where whoever owns it makes one."""
    nats_inbox: str = "_INBOX"


def write_connection(data: Path, connection: ConnectionInfo) -> None:
    write_private(data / "connection.json", _json(connection))


def read_connection(data: Path) -> ConnectionInfo | None:
    """None when nothing has run there yet."""
    file = data / "connection.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=ConnectionInfo)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError("data", "a connection.json that can be read", error, str(file)) from None


def resolved(settings: Settings, component: str) -> Settings:
    """What a component that joins uses: URLs and token that were not given come from `connection.json`.

    To an embedded server it comes as itself, not by the token in that file.
    """
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
    forget_secrets(component)
    return with_database_tls(needed_by(component, _as_role(settings, settings.nats_url, component)))


def _as_role(settings: Settings, given: str, role: str) -> Settings:
    url = as_role(given, settings.data, role)
    if url == given and role != "executor":
        return settings
    if url == given:  # a worker with a token of its own, which it is to forget once it is in the URL
        access = nats_access(settings, given, settings.token)
        return msgspec.structs.replace(settings, nats_url=access.url, nats_inbox=access.inbox)
    issuer = _read_credentials(settings.data / "nats" / _CREDENTIALS)
    seed = issuer.issuer_seed if issuer is not None and role == "api" else ""
    return msgspec.structs.replace(
        settings,
        nats_url=url,
        nats_inbox=inbox_of(role),
        nats_issuer_seed=settings.nats_issuer_seed or seed or None,
    )


def write_processes(data: Path, processes: Mapping[str, Sequence[int]]) -> None:
    write_private(data / "processes.json", _json(processes))


def read_processes(data: Path) -> dict[str, list[int]]:
    return msgspec.json.decode((data / "processes.json").read_bytes(), type=dict[str, list[int]])


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def inbox_of(role: str) -> str:
    """What answers to a role are sent under; for a token, to its id."""
    return f"_INBOX_{role}"


def inbox_of_token(token: str) -> str:
    """The same for who has a token's secret and does not know its id."""
    return inbox_of(hashlib.sha256(token.encode()).hexdigest()[:24])


def token_url(token: str, host: str) -> str:
    return f"nats://{TOKEN_USER}:{quote(token, safe='')}@{host}"


class NatsAccess(NamedTuple):
    url: str
    inbox: str
    """The prefix of what this user may listen to."""
    api: str
    """What the JetStream API is called where this user is."""


def nats_access(settings: Settings, url: str, token: str | None) -> NatsAccess:
    """How to come to a server: with the token as password where the URL names no user."""
    first = url.partition(",")[0].partition("://")[2]
    userinfo, at, _ = first.rpartition("@")
    if not at and token and settings.nats_credentials is None:
        userinfo = f"{TOKEN_USER}:{quote(token, safe='')}"
        url = ",".join(f"{scheme}://{userinfo}@{rest}" for scheme, rest in map(_split_url, url.split(",")))
    user, colon, password = userinfo.partition(":")
    if settings.nats_inbox == _ANY_INBOX and user == TOKEN_USER and colon:
        inbox = inbox_of_token(unquote(password))
    else:
        inbox = settings.nats_inbox
    return NatsAccess(url, inbox, names.EXECUTORS_API if user in _OUTSIDE_OF_LOG else names.JETSTREAM_API)


def _split_url(url: str) -> tuple[str, str]:
    scheme, separator, rest = url.strip().partition("://")
    return (scheme, rest) if separator else ("nats", scheme)


class NatsCredentials(msgspec.Struct, frozen=True, kw_only=True):
    server_name: str
    users: dict[str, str]
    issuer_seed: str = ""
    """Of the account key that signs what the api answers when the server asks whom to let in."""

    def userinfo(self, role: str) -> str:
        return f"{role}:{self.users[role]}"


def kept_credentials(directory: Path, roles: Iterable[str]) -> NatsCredentials:
    """Those in the directory; made for roles that have none, and gone for users that are no role any more."""
    file = directory / _CREDENTIALS
    before = _read_credentials(file)
    users = {
        role: (before.users.get(role) if before else None) or secrets.token_urlsafe(24) for role in roles
    }
    name = before.server_name if before else f"waterclock-{secrets.token_hex(4)}"
    seed = (before.issuer_seed if before else "") or new_issuer_seed()
    kept = NatsCredentials(server_name=name, users=users, issuer_seed=seed)
    if kept != before:
        write_private(file, msgspec.json.encode(kept).decode())
    return kept


def as_role(url: str, data: Path, role: str) -> str:
    """The same server for one of its own users, where `data` holds an embedded server that was meant; else the URL as
    it is. Meant is the one of `connection.json`."""
    found = _read_credentials(data / "nats" / _CREDENTIALS)
    scheme, _, rest = url.partition("://")
    userinfo, _, host = rest.rpartition("@")
    if found is None or role not in found.users or userinfo.partition(":")[0] != TOKEN_USER:
        return url
    return f"{scheme}://{found.userinfo(role)}@{host}"


def _read_credentials(file: Path) -> NatsCredentials | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=NatsCredentials)
    except FileNotFoundError:
        return None
