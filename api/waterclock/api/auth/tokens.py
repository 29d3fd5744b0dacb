"""Bearer tokens: random secrets of which only the hash is kept, with what each may do.

They live in the control bucket. Every api follows it, so that a token revoked anywhere is refused everywhere at once,
and no request waits for a look-up.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct

from waterclock.core.domain.ids import DEFAULT_NAMESPACE, timed_id
from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.data_directory import BOOTSTRAP
from waterclock.core.runtime.quarantine import read_record
from waterclock.core.runtime.tasks import supervised
from waterclock.proto import names
from waterclock.proto.codec import decoder
from waterclock.proto.commands import TokenRequest
from waterclock.proto.events import Instant
from waterclock.proto.methods import Scope

_PREFIX = "token."
_ALWAYS = (BOOTSTRAP, "local")


class Grant(Struct, frozen=True, kw_only=True):
    """What a token allows, as it is kept."""

    token_id: str
    scopes: tuple[Scope, ...]
    namespace: str
    note: str
    created_at: Instant
    created_by: str
    rate_per_second: float | None = None
    expires_at: Instant | None = None
    revoked: bool = False
    """What is left of an administrator's token: one that is given by settings, too, must not come back with them."""
    queues: tuple[str, ...] = ("default",)
    """Whose work it may take, with the scope `execute`."""
    handlers: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.revoked or (self.expires_at is not None and self.expires_at <= now_us())


_decode = decoder(Grant)


class Tokens:
    def __init__(self, connection: Connection, bucket: Bucket) -> None:
        self._connection = connection
        self._bucket = bucket
        self._grants: dict[str, Grant] = {}
        self.on_revoked: Callable[[str], None] | None = None
        """Called with the id of a token that is no longer good, wherever it was revoked."""

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Knows every token while the scope lasts. A reader that fails ends the scope: an api that no longer hears of
        revocations must not go on letting people in."""
        subject = names.kv_subject(names.CONTROL, f"{_PREFIX}*")
        async with Pull.ordered(self._connection, self._bucket.stream, [subject], after_sequence=0) as pull:
            while pull.pending:
                self._read(await pull.next(timeout=1.0))
            async with supervised() as tasks:
                tasks.keep(self._read_on(pull), name="reader of tokens")
                yield

    def grant_of(self, token: str) -> Grant | None:
        """What a token allows; None if nobody knows it, or it has expired."""
        grant = self._grants.get(token_digest(token))
        return None if grant is None or grant.is_over else grant

    def grant_with_id(self, token_id: str) -> Grant | None:
        return next(
            (grant for grant in self._grants.values() if grant.token_id == token_id and not grant.is_over),
            None,
        )

    def grant_with_digest(self, digest: str) -> Grant | None:
        grant = self._grants.get(digest)
        return None if grant is None or grant.is_over else grant

    def digest_with_id(self, token_id: str) -> str | None:
        return next(
            (
                digest
                for digest, grant in self._grants.items()
                if grant.token_id == token_id and not grant.is_over
            ),
            None,
        )

    def is_live(self, token_id: str) -> bool:
        """Also those that are in no bucket: the administrator's, and everybody where access control is off."""
        if any(grant.token_id == token_id and grant.revoked for grant in self._grants.values()):
            return False
        return token_id in _ALWAYS or self.grant_with_id(token_id) is not None

    def is_revoked(self, token: str) -> bool:
        """Whether it was known, and is not any more; only said of administrators' tokens."""
        grant = self._grants.get(token_digest(token))
        return grant is not None and grant.revoked

    def all(self) -> list[Grant]:
        live = [grant for grant in self._grants.values() if not grant.revoked]
        return sorted(live, key=lambda grant: grant.created_at)

    async def make(self, request: TokenRequest, actor: str, token_id: str) -> tuple[Grant, str]:
        """A new token: what it allows, and the secret, which is nowhere else."""
        token, now = f"wc_{secrets.token_urlsafe(32)}", now_us()
        span = request.expires_in_seconds
        grant = Grant(
            token_id=token_id,
            scopes=tuple(sorted(set(request.scopes))),
            namespace=request.namespace,
            note=request.note,
            created_at=now,
            created_by=actor,
            rate_per_second=request.rate_per_second,
            expires_at=None if span is None else now + int(span * SECOND),
            queues=request.queues,
            handlers=request.handlers,
        )
        await self._bucket.create(_PREFIX + token_digest(token), msgspec.json.encode(grant), ttl=span)
        self._grants[token_digest(token)] = grant
        return grant, token

    async def revoke(self, token_id: str) -> Grant | None:
        for digest, grant in list(self._grants.items()):
            if grant.token_id == token_id and not grant.revoked:
                if grant.namespace == DEFAULT_NAMESPACE and "admin" in grant.scopes:
                    await self._mark_revoked(digest, grant)
                else:
                    await self._bucket.delete(_PREFIX + digest)
                    self._forget(digest)
                return grant
        return None

    async def revoke_given(self, token: str, actor: str) -> Grant:
        """The administrator's token that settings give, which has no record of its own until then."""
        grant = Grant(
            token_id=BOOTSTRAP,
            scopes=("admin",),
            namespace=DEFAULT_NAMESPACE,
            note="given by settings",
            created_at=now_us(),
            created_by=actor,
        )
        await self._mark_revoked(token_digest(token), grant)
        return grant

    async def _mark_revoked(self, digest: str, grant: Grant) -> None:
        revoked = msgspec.structs.replace(grant, revoked=True, expires_at=None)
        await self._bucket.put(_PREFIX + digest, msgspec.json.encode(revoked))
        self._grants[digest] = revoked
        self._say_revoked(revoked)

    async def _read_on(self, pull: Pull) -> None:
        while True:
            self._read(await pull.next())

    def _read(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            digest = delivery.subject.rpartition(".")[2]
            if delivery.is_absent or not delivery.data:
                self._forget(digest)
                continue
            grant = read_record(_decode, self._bucket.stream, delivery, None)
            if grant is None:
                self._forget(digest)  # it is not known any more what it allows
            else:
                self._grants[digest] = grant
                if grant.revoked:
                    self._say_revoked(grant)

    def _forget(self, digest: str) -> None:
        grant = self._grants.pop(digest, None)
        if grant is not None:
            self._say_revoked(grant)

    def _say_revoked(self, grant: Grant) -> None:
        if self.on_revoked is not None:
            self.on_revoked(grant.token_id)


def new_token_id() -> str:
    return timed_id(now_us(), secrets.randbits(50))


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
