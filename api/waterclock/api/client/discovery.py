"""Where the service is and how to connect to it: given, set, or written down by `waterclock up`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from waterclock.api.errors import Unreachable
from waterclock.core.runtime.data_directory import TOKEN_USER, nats_access, read_connection
from waterclock.core.runtime.settings import Settings, load
from waterclock.core.runtime.tls import nats_context

if TYPE_CHECKING:
    from ssl import SSLContext


class Endpoint(Struct, frozen=True, kw_only=True):
    url: str
    token: str | None
    settings: Settings
    inbox: str
    """The prefix of what answers are sent to: the token's own."""

    @property
    def credentials(self) -> Path | None:
        return self.settings.nats_credentials

    def tls(self) -> "SSLContext | None":
        return nats_context(self.settings)


def find(
    *,
    url: str | None = None,
    data: Path | str | None = None,
    token: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Endpoint:
    """The URL given, else that of the settings, else that of `connection.json` in the directory given or set."""
    settings = load({"data": None if data is None else str(data)}, environ)
    url = url or (settings.nats_url if data is None else None)
    token = token or settings.token
    if not url:
        found = read_connection(settings.data)
        if found is None:
            file = settings.data / "connection.json"
            raise Unreachable(f"no {file}: start `waterclock up`, or say --data DIR")
        url, token = found.nats if token is None else _without_user(found.nats), token or found.token
    access = nats_access(settings, url, token)
    settings = msgspec.structs.replace(settings, nats_url=access.url)
    return Endpoint(url=access.url, token=token, inbox=access.inbox, settings=settings)


def _without_user(url: str) -> str:
    """For another token than the one that `connection.json` has."""
    scheme, _, rest = url.partition("://")
    userinfo, _, host = rest.rpartition("@")
    return f"{scheme}://{host}" if userinfo.startswith(f"{TOKEN_USER}:") else url
