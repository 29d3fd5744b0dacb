"""Browsers that are signed in: a random secret in a cookie stands for a token, which the browser does not keep.

Kept in the control bucket under the secret's hash, with the hash of the token it stands for: who revokes the token ends
its sessions. Every api follows them, so that who signs out is out everywhere.

A link signs in once. What is kept of it is marked as used by compare-and-set, so that of two who use it one is refused,
whichever api they ask.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct

from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import read_record
from waterclock.core.runtime.tasks import supervised
from waterclock.proto import names
from waterclock.proto.codec import decoder
from waterclock.proto.events import Instant

SESSION_SECONDS = 7 * 86_400
LINK_SECONDS = 600

_SESSION = "session."
_LINK = "sign_in."
_LONGEST = 100


class Session(Struct, frozen=True, kw_only=True):
    """What a secret stands for, as it is kept: of a session and of a link."""

    token_digest: str
    expires_at: Instant
    over: bool = False
    """Signed out, or used."""

    @property
    def is_good(self) -> bool:
        return not self.over and self.expires_at > now_us()


_decode = decoder(Session)


class Sessions:
    def __init__(self, connection: Connection, bucket: Bucket) -> None:
        self._connection = connection
        self._bucket = bucket
        self._sessions: dict[str, Session] = {}

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Knows every session while the scope lasts. A reader that fails ends the scope, as that of tokens does."""
        subject = names.kv_subject(names.CONTROL, f"{_SESSION}*")
        async with Pull.ordered(self._connection, self._bucket.stream, [subject], after_sequence=0) as pull:
            while pull.pending:
                self._read(await pull.next(timeout=1.0))
            async with supervised() as tasks:
                tasks.keep(self._read_on(pull), name="reader of sessions")
                yield

    def token_digest_of(self, secret: str) -> str | None:
        session = self._sessions.get(_hash(secret))
        return session.token_digest if session is not None and session.is_good else None

    async def look_up(self, secret: str) -> None:
        """One that another api opened a moment ago may not have been heard of yet."""
        digest = _hash(secret)
        if digest not in self._sessions and len(secret) <= _LONGEST:
            entry = await self._bucket.get(_SESSION + digest)
            if entry is not None:
                self._sessions.setdefault(digest, _decode(entry.value))  # it may have ended meanwhile

    async def open(self, token_digest: str, token_expires_at: Instant | None) -> tuple[str, int]:
        """A new session: its secret, and for how many seconds it is good."""
        secret, now = secrets.token_urlsafe(32), now_us()
        ends = now + SESSION_SECONDS * SECOND
        if token_expires_at is not None:
            ends = min(ends, token_expires_at)
        session = Session(token_digest=token_digest, expires_at=ends)
        await self._put(_SESSION + _hash(secret), session)
        self._sessions[_hash(secret)] = session
        return secret, (ends - now) // SECOND

    async def close(self, secret: str) -> None:
        digest = _hash(secret)
        session = self._sessions.get(digest)
        if session is not None and session.is_good:
            over = msgspec.structs.replace(session, over=True)
            await self._put(_SESSION + digest, over)
            self._sessions[digest] = over

    async def make_link(self, token_digest: str) -> tuple[str, Instant]:
        """A code that signs in once, and until when."""
        code, ends = secrets.token_urlsafe(24), now_us() + LINK_SECONDS * SECOND
        await self._put(_LINK + _hash(code), Session(token_digest=token_digest, expires_at=ends))
        return code, ends

    async def use_link(self, code: str) -> str | None:
        """The digest of the token that it signs in with; None for one that is unknown, too old or used."""
        key = _LINK + _hash(code)
        entry = await self._bucket.get(key) if len(code) <= _LONGEST else None
        link = None if entry is None else _decode(entry.value)
        if entry is None or link is None or not link.is_good:
            return None
        used = msgspec.json.encode(msgspec.structs.replace(link, over=True))
        try:
            await self._bucket.update(key, used, entry.revision, ttl=LINK_SECONDS)
        except Conflict:
            return None
        return link.token_digest

    async def _put(self, key: str, session: Session) -> None:
        left = max(1, (session.expires_at - now_us()) // SECOND + 1)
        await self._bucket.put(key, msgspec.json.encode(session), ttl=left)

    async def _read_on(self, pull: Pull) -> None:
        while True:
            self._read(await pull.next())

    def _read(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            digest = delivery.subject.rpartition(".")[2]
            absent = delivery.is_absent or not delivery.data
            session = None if absent else read_record(_decode, self._bucket.stream, delivery, None)
            if session is None:
                self._sessions.pop(digest, None)
            else:
                self._sessions[digest] = session


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
