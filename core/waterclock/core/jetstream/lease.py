"""A lease on a subject of a stream, which the broker itself enforces against a stale holder."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.publisher import Expect, Publisher
from waterclock.core.jetstream.reader import last_message


class LeaseState(Struct, frozen=True, kw_only=True):
    holder: str
    token: int = 0


class Lease:
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
        self.token: int | None = None
        self.expires = 0.0
        self._connection = connection
        self._publisher = publisher
        self._stream = stream
        self._subject = subject
        self._holder = holder
        self._ttl = ttl
        self._margin = ttl / 4 if margin is None else margin
        self._turn = asyncio.Lock()

    async def acquire(self) -> int | None:
        """Take it if nobody has it; None if somebody does. The token is the sequence of the lease message."""
        async with self._turn:
            stored = await last_message(self._connection, self._stream, self._subject)
            if stored is not None and not stored.is_marker:
                return None
            try:
                return await self._write(0 if stored is None else stored.sequence)
            except Conflict:
                return None

    async def renew(self) -> int:
        """A new token and a new term; raises Conflict, and forgets the token, when the lease was lost."""
        async with self._turn:
            if self.token is None:
                raise Conflict(f"{self._subject} is not held")
            try:
                return await self._write(self.token)
            except Conflict:
                self.token = None
                raise

    async def release(self) -> None:
        async with self._turn:
            if self.token is None:
                return
            token, self.token = self.token, None
            try:
                await self._publisher.publish(
                    self._subject,
                    b"",
                    expect=Expect(last_subject_sequence=token),
                    ttl_seconds=1,
                    rollup=True,
                    headers={"KV-Operation": "DEL"},
                )
            except Conflict:
                pass

    @asynccontextmanager
    async def fenced(self) -> AsyncIterator[Expect]:
        """The expectation for a fenced append. A renewal waits meanwhile, so the token stays the current one."""
        async with self._turn:
            if self.token is None:
                raise Conflict(f"{self._subject} is not held")
            yield Expect(last_subject_sequence=self.token, subject=self._subject)

    async def read(self) -> LeaseState | None:
        stored = await last_message(self._connection, self._stream, self._subject)
        if stored is None or stored.is_marker:
            return None
        return msgspec.structs.replace(_decode(stored.data), token=stored.sequence)

    async def _write(self, expected: int) -> int:
        asked = time.monotonic()
        self.token = await self._publisher.publish(
            self._subject,
            _encode(LeaseState(holder=self._holder)),
            expect=Expect(last_subject_sequence=expected),
            ttl_seconds=self._ttl,
            rollup=True,
        )
        self.expires = asked + self._ttl - self._margin
        return self.token


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LeaseState).decode
