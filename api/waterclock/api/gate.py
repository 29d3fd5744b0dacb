"""Who is let in, by bearer token."""

import hmac

from waterclock.api.caller import LOCAL, Caller
from waterclock.api.errors import Unauthenticated


class Gate:
    def __init__(self, token: str | None) -> None:
        """`token` None switches access control off; settings allow that on loopback only."""
        self._token = token

    def admit(self, scope: str, authorization: str | None) -> Caller:
        """The caller behind an Authorization header."""
        if self._token is None or scope == "open":
            return LOCAL
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Unauthenticated.because("send `Authorization: Bearer TOKEN`; connection.json has the token")
        if not hmac.compare_digest(token.strip().encode(), self._token.encode()):
            raise Unauthenticated.because("nobody knows this token")
        return Caller(actor="token:admin")

    def admit_over_nats(self, authorization: str | None) -> Caller:
        """NATS has authenticated the connection by its own credentials; a token sent along narrows it."""
        return self.admit("read", authorization) if authorization else Caller(actor="nats")
