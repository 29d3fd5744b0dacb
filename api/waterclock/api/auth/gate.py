"""Who is calling and how far they may go: by token, and how often one may ask."""

import hmac
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from waterclock.api.auth.namespaces import DEFAULT
from waterclock.api.auth.sessions import Sessions
from waterclock.api.auth.tokens import Grant, Tokens, token_digest
from waterclock.api.errors import Forbidden, RateLimited, Unauthenticated
from waterclock.core.runtime.data_directory import BOOTSTRAP
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.proto.events import Instant
from waterclock.proto.methods import Method, Scope

ALL_SCOPES: frozenset[Scope] = frozenset(("read", "submit", "operate", "execute", "secrets", "admin"))


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
_BOOTSTRAP = Caller(actor="token:bootstrap")
_REQUEST_INFO = "Nats-Request-Info"


class _RequestInfo(Struct, frozen=True):
    user: str = ""


class Login(Struct, frozen=True, kw_only=True):
    """Somebody who may connect to NATS."""

    token_id: str
    caller: Caller
    also: tuple[str, ...] = ()
    """What else the token is called."""
    queues: tuple[str, ...] = ("default",)
    handlers: tuple[str, ...] = ()
    expires_at: Instant | None = None
    anybody: bool = False
    """Access control is off: everybody is let in, and all are the same."""


class Gate:
    def __init__(self, settings: Settings, tokens: Tokens, sessions: Sessions | None = None) -> None:
        if settings.auth == "off" and settings.host not in _LOOPBACK:
            raise SettingsError("auth", "on, since the api listens on more than loopback", "off", "settings")
        self._open = settings.auth == "off"
        self._bootstrap = settings.token
        self._rate = settings.rate_limit
        self._tokens = tokens
        self._sessions = sessions
        self._vouches = settings.nats_issuer_seed is not None
        self._rate_limits = RateLimits()

    def admit(self, method: Method[Any, Any], authorization: str | None) -> Caller:
        """The caller behind an Authorization header, if they may call the method."""
        caller = LOCAL if self._open or method.scope == "open" else self._known(authorization)
        caller.must(method)
        return caller

    def admit_over_nats(self, method: Method[Any, Any], headers: Mapping[str, str]) -> Caller:
        """As over HTTP; without a token in a header it is the one that the connection was made with.

        The server says so in a header that it sets itself, whatever a client sends. Only where it asks us whom to let
        in: on another server anybody could send the same.
        """
        authorization = headers.get("Authorization")
        if authorization or self._open or method.scope == "open" or not self._vouches:
            return self.admit(method, authorization)
        caller = self._connected_as(headers.get(_REQUEST_INFO, ""))
        caller.must(method)
        return caller

    def login(self, token: str) -> Login | None:
        """Who may connect to NATS with this password."""
        if self._open:
            return Login(token_id=LOCAL.actor, caller=LOCAL, anybody=True)
        grant = self._tokens.grant_of(token)
        if grant is None:
            return Login(token_id=BOOTSTRAP, caller=_BOOTSTRAP) if self._is_bootstrap(token) else None
        return Login(
            token_id=grant.token_id,
            also=(BOOTSTRAP,) if self._is_bootstrap(token) else (),
            caller=_caller(grant),
            queues=grant.queues,
            handlers=grant.handlers,
            expires_at=grant.expires_at,
        )

    @property
    def is_open(self) -> bool:
        """Access control is off."""
        return self._open

    def digest_of_token(self, token: str) -> str | None:
        """What a session keeps of a token; None if it is not good."""
        digest = token_digest(token)
        if (grant := self._tokens.grant_with_digest(digest)) is not None:
            self._rated(grant)
        return digest if self.is_good(digest) else None

    def digest_of_caller(self, caller: Caller) -> str | None:
        """The same of whoever has shown theirs; None if there was none to show."""
        if caller == LOCAL or self._open:
            return None
        if caller.actor == _BOOTSTRAP.actor and self._bootstrap is not None:
            return self.digest_of_token(self._bootstrap)
        return self._tokens.digest_with_id(caller.actor.removeprefix("token:"))

    def is_good(self, digest: str) -> bool:
        return self._is_digest_of_bootstrap(digest) or self._tokens.grant_with_digest(digest) is not None

    def expiry_of(self, digest: str) -> Instant | None:
        grant = self._tokens.grant_with_digest(digest)
        return None if grant is None else grant.expires_at

    def _connected_as(self, info: str) -> Caller:
        try:
            user = msgspec.json.decode(info, type=_RequestInfo).user
        except msgspec.MsgspecError:
            user = ""
        token_id = user.removeprefix("token:")
        if token_id == user:
            raise Unauthenticated.because("connect with a token, or send `Authorization: Bearer TOKEN`")
        if token_id == BOOTSTRAP and self._bootstrap is not None and self._is_bootstrap(self._bootstrap):
            return _BOOTSTRAP
        grant = self._tokens.grant_with_id(token_id)
        if grant is None:
            raise Unauthenticated.because("the token of this connection was revoked, or has expired")
        return self._rated(grant)

    def _known(self, authorization: str | None) -> Caller:
        kind, _, token = (authorization or "").partition(" ")
        if kind == "Session":
            return self._signed_in(token)
        if kind.lower() != "bearer" or not token.strip():
            raise Unauthenticated.because("send `Authorization: Bearer TOKEN`; connection.json has the token")
        return self._bearer(token.strip())

    def _signed_in(self, secret: str) -> Caller:
        """A browser's session is as good as the token that it was opened with."""
        digest = None if self._sessions is None else self._sessions.token_digest_of(secret)
        if digest is not None and self._is_digest_of_bootstrap(digest):
            return _BOOTSTRAP
        grant = None if digest is None else self._tokens.grant_with_digest(digest)
        if grant is None:
            raise Unauthenticated.because(
                "you are signed out: the session is over, or its token was revoked or has expired"
            )
        return self._rated(grant)

    def _bearer(self, token: str) -> Caller:
        if self._is_bootstrap(token):
            return _BOOTSTRAP
        grant = self._tokens.grant_of(token)
        if grant is None:
            raise Unauthenticated.because("nobody knows this token, or it has expired")
        return self._rated(grant)

    def _is_bootstrap(self, token: str) -> bool:
        known = self._bootstrap
        given = known is not None and hmac.compare_digest(token.encode(), known.encode())
        return given and not self._tokens.is_revoked(token)

    def _is_digest_of_bootstrap(self, digest: str) -> bool:
        known = self._bootstrap
        return known is not None and token_digest(known) == digest and not self._tokens.is_revoked(known)

    def _rated(self, grant: Grant) -> Caller:
        if rate := grant.rate_per_second or self._rate:
            self._rate_limits.take(grant.token_id, rate)
        return _caller(grant)


def _caller(grant: Grant) -> Caller:
    return Caller(actor=f"token:{grant.token_id}", scopes=frozenset(grant.scopes), namespace=grant.namespace)


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
