"""Which methods a path has: what OPTIONS and 405 say, and what a page of another origin may use.

Made from the same table as the routes. Pages of other origins are let in by the setting `cors_origins` alone.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from waterclock.api.http.raw_response import App, header, send_empty
from waterclock.proto.methods import METHODS

PAGES = ("/", "/ui", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/asyncapi.json")
_BELOW = ("/ui/", "/assets/")
_SESSION = "/session"
_SENT = (
    b"Accept, Authorization, Content-Encoding, Content-Type, "
    b"Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Range"
)
_SHOWN = b"Content-Range, ETag, Link, Location, Retry-After"
_SECONDS = b"600"


def _patterns() -> list[tuple[re.Pattern[str], set[str]]]:
    found: dict[str, set[str]] = {page: {"GET"} for page in PAGES}
    found[_SESSION] = {"POST", "DELETE"}
    for method in METHODS:
        if method.rest is not None:
            verbs = {method.rest.verb, *method.rest.also}
            found.setdefault(method.rest.path.removeprefix("/v1"), set()).update(verbs)
    return [
        (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)) + "/?"), verbs)
        for path, verbs in found.items()
    ]


_PATTERNS = _patterns()


@lru_cache(maxsize=1024)
def allowed(path: str) -> str:
    """As `Allow` has it; nothing if there is nothing at that path."""
    short = path.removeprefix("/v1") or "/"
    if path.startswith(_BELOW):
        return "GET, HEAD, OPTIONS"
    verbs = {verb for pattern, found in _PATTERNS if pattern.fullmatch(short) for verb in found}
    if not verbs:
        return ""
    return ", ".join(sorted({*verbs, *(("HEAD",) if "GET" in verbs else ()), "OPTIONS"}))


class AllowedMethods:
    def __init__(self, inner: App, origins: Iterable[str]) -> None:
        self._inner = inner
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        origin = header(scope["headers"], b"origin") if self._origins else b""
        admitted = self._admitted(origin)
        methods = allowed(scope["path"]) if scope["method"] == "OPTIONS" else ""
        if methods:
            await send_empty(
                send, 204, [(b"allow", methods.encode()), *_preflight(scope, admitted, methods.encode())]
            )
            return
        await self._inner(scope, receive, _with_headers(send, admitted) if admitted else send)

    def _admitted(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        if b"*" in self._origins and origin:
            return [(b"access-control-allow-origin", b"*")]
        if origin in self._origins:
            return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
        return []


def _preflight(scope: Any, admitted: list[tuple[bytes, bytes]], methods: bytes) -> list[tuple[bytes, bytes]]:
    if not admitted or not header(scope["headers"], b"access-control-request-method"):
        return admitted
    return [
        *admitted,
        (b"access-control-allow-methods", methods),
        (b"access-control-allow-headers", _SENT),
        (b"access-control-max-age", _SECONDS),
    ]


def _with_headers(send: Any, admitted: list[tuple[bytes, bytes]]) -> Any:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            more = [*admitted, (b"access-control-expose-headers", _SHOWN)]
            message["headers"] = [*message["headers"], *more]
        await send(message)

    return sending
