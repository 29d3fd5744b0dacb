"""How other commands find a running `waterclock up`: two files in its data directory.

`connection.json` says where to connect and with what, `processes.json` which processes there are.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from waterclock.core.runtime.embedded.nats_credentials import as_role, inbox_of
from waterclock.core.runtime.private_file import write_private
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.runtime.tls import with_database_tls


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
