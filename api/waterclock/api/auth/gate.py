"""Who is calling and how far they may go: by bearer token, and how often one may ask."""

import hmac
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from waterclock.api.auth.namespaces import DEFAULT
from waterclock.api.auth.tokens import BOOTSTRAP, Tokens
from waterclock.api.errors import Forbidden, RateLimited, Unauthenticated
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.proto.methods import Method, Scope

ALL_SCOPES: frozenset[Scope] = frozenset(("read", "submit", "operate", "secrets", "admin"))


class Caller(Struct, frozen=True, kw_only=True):
    actor: str
    """A token's id, or how the caller was let in; recorded with everything they change."""
    scopes: frozenset[Scope] = ALL_SCOPES
    namespace: str = DEFAULT
    address: str = ""
    """Where the request came from."""

    @property
    def everywhere(self) -> bool:
        """An administrator of the default namespace is one of all namespaces."""
        return "admin" in self.scopes and self.namespace == DEFAULT

    def sees(self, namespace: str) -> bool:
        return self.everywhere or self.namespace == namespace

    def may(self, scope: Scope) -> bool:
        return scope == "open" or scope in self.scopes or "admin" in self.scopes

    def must(self, method: Method[Any, Any]) -> None:
        with self.answerable():
            if not self.may(method.scope):
                raise Forbidden.because(f"{method.name} needs a token with the scope {method.scope}")

    @contextmanager
    def answerable(self) -> Iterator[None]:
        """What is forbidden inside is said to have been refused to this caller."""
        try:
            yield
        except Forbidden as refused:
            refused.actor, refused.namespace = self.actor, self.namespace
            raise


LOCAL = Caller(actor="local")
"""A caller on loopback where access control is switched off."""

_BURST_SECONDS = 1.0
_MAX_BUCKETS = 10_000
"""Buckets kept; a token that has not asked for a while starts with a full one anyway."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_BOOTSTRAP = Caller(actor=f"token:{BOOTSTRAP}")
_WITHOUT_TOKEN: dict[str, frozenset[Scope]] = {
    "operate": frozenset(("read", "submit", "operate")),
    "submit": frozenset(("read", "submit")),
    "read": frozenset(("read",)),
    "nothing": frozenset(),
}


class Gate:
    def __init__(self, settings: Settings, tokens: Tokens) -> None:
        if settings.auth == "off" and settings.host not in _LOOPBACK:
            raise SettingsError("auth", "on, since the api listens on more than loopback", "off", "settings")
        self._open = settings.auth == "off"
        self._bootstrap = settings.token
        self._rate = settings.rate_limit
        self._tokens = tokens
        self._over_nats = Caller(actor="nats", scopes=_WITHOUT_TOKEN[settings.nats_without_token])
        self._rate_limits = RateLimits()

    def admit(self, method: Method[Any, Any], authorization: str | None) -> Caller:
        """The caller behind an Authorization header, if they may call the method."""
        caller = LOCAL if self._open or method.scope == "open" else self._known(authorization)
        caller.must(method)
        return caller

    def admit_over_nats(self, method: Method[Any, Any], authorization: str | None) -> Caller:
        """As over HTTP; but who sends no token has at least shown a NATS password, and may do what settings allow."""
        if authorization or self._open or method.scope == "open":
            return self.admit(method, authorization)
        if not self._over_nats.scopes:
            raise Unauthenticated.because("send a token in the header `Authorization: Bearer TOKEN`")
        self._over_nats.must(method)
        return self._over_nats

    def _known(self, authorization: str | None) -> Caller:
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise Unauthenticated.because("send `Authorization: Bearer TOKEN`; connection.json has the token")
        return self._bearer(token.strip())

    def _bearer(self, token: str) -> Caller:
        given = self._bootstrap is not None and hmac.compare_digest(token.encode(), self._bootstrap.encode())
        if given and not self._tokens.is_revoked(token):
            return _BOOTSTRAP
        grant = self._tokens.grant_of(token)
        if grant is None:
            raise Unauthenticated.because("nobody knows this token, or it has expired")
        if rate := grant.rate_per_second or self._rate:
            self._rate_limits.take(grant.token_id, rate)
        return Caller(
            actor=f"token:{grant.token_id}", scopes=frozenset(grant.scopes), namespace=grant.namespace
        )


class RateLimits:
    """A bucket of tries for each token, which fills up again with time."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str, per_second: float) -> None:
        """Raises RateLimited, with the time after which a try is free again."""
        now = time.monotonic()
        most = max(1.0, per_second * _BURST_SECONDS)
        left, since = self._buckets.pop(who, (most, now))
        left = min(most, left + (now - since) * per_second)
        if left < 1:
            self._buckets[who] = (left, now)
            wait = (1 - left) / per_second
            raise RateLimited.because(f"this token may ask {per_second:g} times a second", retry_after=wait)
        self._buckets[who] = (left - 1, now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.pop(next(iter(self._buckets)))
