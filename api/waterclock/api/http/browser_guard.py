"""What a web page could have its visitor's browser do to us, who has the connection and maybe no need for a token.

- `Host` must be a name by which we can be meant: else a page whose name was made to resolve to this machine (DNS
  rebinding) counts as the same origin, and reads and does what it likes.
- `Origin`, which browsers add to all that a page sends elsewhere, must be ours or one of `cors_origins`.
- A body must say that it is JSON, which a page of another origin cannot without asking first. What says nothing is
  taken from programs; browsers always tell on whose behalf they send.
"""

import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

from waterclock.api.http.raw_response import App, send_problem
from waterclock.core.runtime.settings import Settings
from waterclock.proto.problem import Problem

_NOT_IN_PUBLIC_DNS = (".localhost", ".local", ".internal", ".home.arpa")
_JSON = ("application/json", "application/x-ndjson", "application/ndjson", "application/jsonl")
_UPLOADS = ("/v1/artifacts", "/artifacts")
_WITH_BODY = ("POST", "PUT", "PATCH")

HEADERS = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
]
"""Of every answer."""


class BrowserGuard:
    def __init__(self, inner: App, settings: Settings) -> None:
        self._inner = inner
        self._any_host = "*" in settings.allowed_hosts
        own = {settings.host, socket.gethostname(), *settings.allowed_hosts}
        self._hosts = {name.lower().rstrip(".") for name in own}
        self._origins = frozenset(settings.cors_origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (problem := self._objection(scope)) is not None:
            await send_problem(send, problem, [(b"connection", b"close")])
            return
        await self._inner(scope, receive, send)

    def _objection(self, scope: Any) -> Problem | None:
        host = origin = site = kind = b""
        length = b"0"
        for name, value in scope["headers"]:
            match name:
                case b"host":
                    host = value
                case b"origin":
                    origin = value
                case b"sec-fetch-site":
                    site = value
                case b"content-type":
                    kind = value
                case b"content-length":
                    length = value
                case b"transfer-encoding":
                    length = b"?"
        if host and not self._is_ours(host.decode("latin-1")):
            return Problem(
                status=421,
                title="Misdirected Request",
                detail=f"Host: {host.decode('latin-1')[:100]} is no name of this server (setting allowed_hosts)",
            )
        if origin and not self._is_admitted(origin.decode("latin-1"), host.decode("latin-1")):
            return Problem(
                status=403,
                title="Forbidden",
                detail=f"Origin: {origin.decode('latin-1')[:100]} is another's page; see the setting cors_origins",
            )
        if scope["method"] in _WITH_BODY and length != b"0" and scope["path"] not in _UPLOADS:
            media = kind.partition(b";")[0].strip().lower().decode("latin-1")
            json = media in _JSON or (media.startswith("application/") and media.endswith("+json"))
            if not json and (media or origin or site):
                return Problem(
                    status=415,
                    title="Unsupported Media Type",
                    detail=f"Content-Type: {media[:100] or 'none'}; send application/json",
                )
        return None

    def _is_ours(self, host: str) -> bool:
        name = _without_port(host).lower().rstrip(".")
        return (
            self._any_host
            or name in self._hosts
            or "." not in name.strip("[]")  # also `localhost`, and the names of containers
            or name.endswith(_NOT_IN_PUBLIC_DNS)
            or _is_address(name)
        )

    def _is_admitted(self, origin: str, host: str) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
