"""The passwords of the embedded server's users, one for each role, in a file for their owner only."""

import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from waterclock.core.runtime.private_file import write_private

CLIENT = "client"
ADMIN = "admin"

_DIRECTORY = "nats"
_FILE = "credentials.json"


def inbox_of(role: str) -> str:
    """What answers to a role are sent under."""
    return f"_INBOX_{role}"


class NatsCredentials(msgspec.Struct, frozen=True, kw_only=True):
    server_name: str
    users: dict[str, str]

    def userinfo(self, role: str) -> str:
        return f"{role}:{self.users[role]}"


def kept_credentials(directory: Path, roles: Iterable[str]) -> NatsCredentials:
    """Those in the directory; made for roles that have none, and gone for users that are no role any more."""
    file = directory / _FILE
    before = _read(file)
    users = {
        role: (before.users.get(role) if before else None) or secrets.token_urlsafe(24) for role in roles
    }
    name = before.server_name if before else f"waterclock-{secrets.token_hex(4)}"
    kept = NatsCredentials(server_name=name, users=users)
    if kept != before:
        write_private(file, msgspec.json.encode(kept).decode())
    return kept


def as_role(url: str, data: Path, role: str) -> str:
    """The same server for one of its other users, where `data` holds an embedded server; else the URL as it is."""
    found = _read(data / _DIRECTORY / _FILE)
    scheme, _, rest = url.partition("://")
    userinfo, _, host = rest.rpartition("@")
    if found is None or role not in found.users or userinfo != found.userinfo(CLIENT):
        return url
    return f"{scheme}://{found.userinfo(role)}@{host}"


def _read(file: Path) -> NatsCredentials | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=NatsCredentials)
    except FileNotFoundError:
        return None
