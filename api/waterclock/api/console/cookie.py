"""The cookie of a browser that is signed in, and what it is good for.

The browser adds a cookie to whatever a page has it send, so it counts only where the browser also says that the page
is one of ours: a change must come with `Sec-Fetch-Site: same-origin`, which no page can set, and a read must not come
from another one. Programs have a token to show and need no cookie.

Cookies are shared by all ports of a host, so the port is in the name.
"""

from http.cookies import CookieError, SimpleCookie
from typing import Any

import msgspec

from waterclock.api.auth.sessions import Sessions
from waterclock.api.errors import Forbidden, Refused, Unavailable
from waterclock.core.jetstream.errors import LogError
from waterclock.proto.problem import MEDIA_TYPE, retry_after

SCHEME = "Session"
"""Of the Authorization that a cookie is turned into."""

_READS = ("GET", "HEAD", "OPTIONS")
_SIGN_IN = ("/v1/session", "/session")
_SAME_ORIGIN = b"same-origin"
_NOT_FROM_ELSEWHERE = (b"", _SAME_ORIGIN, b"none")


class CookieSession:
    """In front of the routes: a cookie becomes the Authorization that it stands for, or nothing."""

    def __init__(self, inner: Any, sessions: Sessions) -> None:
        self._inner = inner
        self._sessions = sessions

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        secret = secret_of(scope) if scope["type"] == "http" else None
        if secret is None:
            await self._inner(scope, receive, send)
            return
        try:
            counts = _counts(scope)
            if counts:
                await self._sessions.look_up(secret)
        except Refused as refused:
            await _send(send, refused)
            return
        except LogError as error:
            await _send(send, Unavailable.because(f"the log cannot be reached: {error}", retry_after=1.0))
            return
        if counts:
            added = (b"authorization", f"{SCHEME} {secret}".encode("latin-1"))
            scope = {**scope, "headers": [*scope["headers"], added]}
        await self._inner(scope, receive, send)


def _counts(scope: Any) -> bool:
    """Whether the cookie is to be believed."""
    if _header(scope, b"authorization"):
        return False
    site = _header(scope, b"sec-fetch-site")
    if scope["method"] in _READS:
        return site in _NOT_FROM_ELSEWHERE
    if scope["method"] == "POST" and scope["path"] in _SIGN_IN:
        return False
    if site != _SAME_ORIGIN:
        raise Forbidden.because(
            "a cookie changes something only from a page of this server, by a browser that says so "
            "(Sec-Fetch-Site: same-origin; over https, or on localhost); "
            "programs send `Authorization: Bearer TOKEN`"
        )
    return True


def secret_of(scope: Any) -> str | None:
    sent = _header(scope, b"cookie")
    name = _name(scope)
    if not sent or name.encode() not in sent:
        return None
    try:
        found = SimpleCookie(sent.decode("latin-1")).get(name)
    except CookieError:
        return None
    return None if found is None or not found.value else found.value


def session_cookie(scope: Any, secret: str, seconds: int) -> str:
    secure = scope["scheme"] == "https" or _header(scope, b"origin").startswith(b"https://")
    return (
        f"{_name(scope)}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        f"{'; Secure' if secure else ''}"
    )


def ended_cookie(scope: Any) -> str:
    return f"{_name(scope)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"


def _name(scope: Any) -> str:
    _, colon, port = _header(scope, b"host").decode("latin-1").rpartition(":")
    return (
        f"waterclock_session_{port}" if colon and port.isascii() and port.isdigit() else "waterclock_session"
    )


def _header(scope: Any, name: bytes) -> bytes:
    return next((value for found, value in scope["headers"] if found == name), b"")


async def _send(send: Any, refused: Refused) -> None:
    body = msgspec.json.encode(refused.problem)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in retry_after(refused.problem).items()),
    ]
    await send({"type": "http.response.start", "status": refused.problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
