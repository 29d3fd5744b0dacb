"""How other commands find a running `waterclock up`: two files in its data directory.

`connection.json` says where to connect and with what, `processes.json` which processes there are.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from waterclock.core.runtime.private_file import write_private
from waterclock.core.runtime.settings import Settings, SettingsError


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


def resolved(settings: Settings) -> Settings:
    """What one who joins uses: URLs and token that were not given come from `connection.json`."""
    if settings.nats_url and settings.database_url and settings.token:
        return settings
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
    return settings


def write_processes(data: Path, processes: Mapping[str, Sequence[int]]) -> None:
    write_private(data / "processes.json", _json(processes))


def read_processes(data: Path) -> dict[str, list[int]]:
    return msgspec.json.decode((data / "processes.json").read_bytes(), type=dict[str, list[int]])


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
