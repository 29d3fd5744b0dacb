"""A lease on a subject of a stream, which the broker itself enforces against a stale holder.

The lease is one message, taken and renewed by compare-and-set, that expires by its time to live. Its sequence
is the fencing token: an append that expects it as the last of the lease's subject is refused once the lease has
moved. Every write rolls up the subject, or else the expiry of the newest lease would bring the token of the one
before it back to life.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.messages import Stored, last_message
from waterclock.core.jetstream.publisher import Expect, Publisher


class LeaseState(Struct, frozen=True, kw_only=True):
    """What the log says. It may lag: right after a restart of the server an expired lease can still be seen."""

    holder: str
    token: int
    renewed: datetime


class _Claim(Struct, frozen=True):
    holder: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Claim).decode


class Lease:
    """`holder` must be unique to this incarnation of the process: what carries it is taken for our own."""

    def __init__(
        self,
        connection: Connection,
        publisher: Publisher,
        stream: str,
        subject: str,
        *,
        holder: str,
        ttl: float,
        margin: float | None = None,
    ) -> None:
        self.subject = subject
        self.token: int | None = None
        self.expires = 0.0
        """When to stop acting as the holder, on the monotonic clock: `margin` before the server forgets us."""
        self._connection = connection
        self._publisher = publisher
        self._stream = stream
        self._holder = holder
        self._ttl = ttl
        self._margin = ttl / 4 if margin is None else margin
        self._turn = asyncio.Lock()

    @property
    def held(self) -> bool:
        return self.token is not None and time.monotonic() < self.expires

    async def acquire(self) -> int | None:
        """Take it if nobody else has it, and return the token; None if somebody does."""
        async with self._turn:
            stored = await last_message(self._connection, self._stream, self.subject)
            if stored is not None and not stored.is_absent and not self._is_ours(stored):
                self.token = None
                return None
            try:
                return await self._write(0 if stored is None else stored.sequence)
            except Conflict:
                self.token = None
                return None

    async def renew(self) -> int:
        """A new token and a new term. Conflict: it is lost, and the token is forgotten."""
        async with self._turn:
            if self.token is None:
                raise Conflict(f"{self.subject} is not held")
            try:
                return await self._write(self.token)
            except Conflict:
                stored = await last_message(self._connection, self._stream, self.subject)
                self.token = None
                if stored is None or stored.is_absent or not self._is_ours(stored):
                    raise
                # An earlier renewal whose outcome stayed unknown did arrive.
                return await self._write(stored.sequence)

    async def keep(self) -> None:
        """Renew it, unless that was done a moment ago. Conflict: it is lost."""
        if time.monotonic() > self.expires - self._ttl / 2:
            await self.renew()

    async def release(self) -> None:
        """Give it up now, so that the next one need not wait for the expiry."""
        async with self._turn:
            token, self.token = self.token, None
            if token is None:
                return
            try:
                await self._publisher.publish(
                    self.subject,
                    b"",
                    expect=Expect(last_subject_sequence=token),
                    ttl_seconds=1,
                    rollup=True,
                    headers={"KV-Operation": "DEL"},
                    deadline=self._ttl,
                )
            except Conflict:
                pass

    @asynccontextmanager
    async def fenced(self) -> AsyncIterator[Expect]:
        """What a fenced append must expect. A renewal waits meanwhile, so that the token stays the current one."""
        async with self._turn:
            if not self.held or self.token is None:
                raise Conflict(f"{self.subject} is not held")
            yield Expect(last_subject_sequence=self.token, subject=self.subject)

    async def read(self) -> LeaseState | None:
        stored = await last_message(self._connection, self._stream, self.subject)
        if stored is None or stored.is_absent:
            return None
        return LeaseState(holder=_decode(stored.data).holder, token=stored.sequence, renewed=stored.timestamp)

    def _is_ours(self, stored: Stored) -> bool:
        return _decode(stored.data).holder == self._holder

    async def _write(self, expected: int) -> int:
        asked = time.monotonic()
        self.token = await self._publisher.publish(
            self.subject,
            _encode(_Claim(self._holder)),
            expect=Expect(last_subject_sequence=expected),
            ttl_seconds=self._ttl,
            rollup=True,
            deadline=self._ttl,
        )
        self.expires = asked + self._ttl - self._margin
        return self.token
