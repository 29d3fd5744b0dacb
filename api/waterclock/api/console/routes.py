"""The console's addresses: `/` and `/ui/…` are one page, `/assets/…` its files, `/v1/session` who is signed in."""

from typing import Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from waterclock.api import decoding
from waterclock.api.application import Application
from waterclock.api.auth.sessions import LINK_SECONDS
from waterclock.api.console import files
from waterclock.api.console.cookie import ended_cookie, secret_of, session_cookie
from waterclock.api.dispatch import answer
from waterclock.api.errors import Invalid, NotFound, Unauthenticated
from waterclock.proto import methods
from waterclock.proto.methods import Method
from waterclock.proto.queries import Nothing

AnyRequest = Request[Any, Any, Any]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_FOR_EVER = "public, max-age=31536000, immutable"

_SIGN_IN: Method[Any, Any] = Method("session.open", "Sign a browser in", Nothing, type(None), "open")


class SignIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the two."""

    token: str | None = None
    code: str | None = None
    """From a link that `waterclock console` made."""


def console(app: Application) -> list[HTTPRouteHandler]:
    @get(["/", "/ui", "/ui/{path:path}"])
    async def page() -> Response[str]:
        return Response(files.shell(), media_type="text/html", headers={"Content-Security-Policy": POLICY})

    @get("/assets/{digest:str}/{path:path}")
    async def asset(request: AnyRequest) -> Response[bytes]:
        name = str(request.path_params["path"]).lstrip("/")
        current = request.path_params["digest"] == files.digest()
        file = files.files().get(name) if current else None
        if file is None:
            raise NotFound.because(f"there is no {name} of this version of the console; load the page again")
        headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(file.packed, media_type=file.media_type, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)

    @get(["/v1/session", "/session"])
    async def who_is_here(request: AnyRequest) -> Response[bytes]:
        """As `whoami`, but null for nobody: a browser writes every 401 down as an error of the page."""
        try:
            caller = app.gate.admit(methods.WHOAMI, request.headers.get("authorization"))
        except Unauthenticated:
            found = None
        else:
            found = await answer(app, methods.WHOAMI, Nothing(), caller)
        headers = {"Cache-Control": "no-store"}
        return Response(msgspec.json.encode(found), media_type="application/json", headers=headers)

    @post(["/v1/session", "/session"], status_code=200)
    async def sign_in(request: AnyRequest) -> Response[bytes]:
        asked = decoding.decode(await request.body(), SignIn)
        if (asked.token is None) == (asked.code is None):
            raise Invalid.field("token", "say either a token or the code of a link")
        if app.gate.is_open:
            return _nothing({})
        try:
            found = await _digest(app, asked)
        except Unauthenticated as refused:
            app.access_log.denied(_SIGN_IN, refused, request.client.host if request.client else "")
            raise
        secret, seconds = await app.sessions.open(found, app.gate.expiry_of(found))
        return _nothing({"Set-Cookie": session_cookie(request.scope, secret, seconds)})

    @delete(["/v1/session", "/session"], status_code=200)
    async def sign_out(request: AnyRequest) -> Response[bytes]:
        if secret := secret_of(request.scope):
            await app.sessions.close(secret)
        return _nothing({"Set-Cookie": ended_cookie(request.scope)})

    return [page, asset, who_is_here, sign_in, sign_out]


async def _digest(app: Application, asked: SignIn) -> str:
    """Of the token that signs in."""
    if asked.code is None:
        found = app.gate.digest_of_token((asked.token or "").strip())
        if found is None:
            raise Unauthenticated.because("nobody knows this token, or it has expired or was revoked")
        return found
    found = await app.sessions.use_link(asked.code)
    if found is None or not app.gate.is_good(found):
        raise Unauthenticated.because(
            f"this link was used already, or is older than {LINK_SECONDS // 60} minutes; "
            "`waterclock console` makes a new one"
        )
    return found


def _nothing(headers: dict[str, str]) -> Response[bytes]:
    headers["Cache-Control"] = "no-store"
    return Response(b"", status_code=204, media_type="application/json", headers=headers)
