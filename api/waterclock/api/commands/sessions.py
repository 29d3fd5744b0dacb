"""`sessions.link`: a link that signs a browser in, once, as whoever asked for it."""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.proto import methods
from waterclock.proto.answers import SignInLink
from waterclock.proto.queries import Nothing


@handles(methods.SESSIONS_LINK)
async def link(app: Application, request: Nothing, caller: Caller) -> SignInLink:
    digest = app.gate.digest_of_caller(caller)
    if digest is None:  # access control is off, and nobody needs to sign in
        return SignInLink(path="/")
    code, ends = await app.sessions.make_link(digest)
    return SignInLink(path=f"/ui/sign-in#{code}", expires_at=datetime_of(ends))
