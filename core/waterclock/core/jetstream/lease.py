"""A lease on a subject of a stream, which the broker itself enforces against a stale holder.

The lease is one message that names its holder, taken by compare-and-set. Its sequence is the fencing token: an append
that expects it as the last of the lease's subject is refused once somebody else has taken the lease. It has no time to
live, so nothing has to be renewed and the token stays the same for as long as the holder does. Whether a holder still
lives is not decided here: whoever takes a lease from another says that the other is dead, and if that was wrong, the
broker's refusal tells the other.

The version before wrote leases with a time to live. They are respected like others until the broker drops them.
"""

import time
from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.messages import Stored, last_message
from waterclock.core.jetstream.publisher import Expect, Publisher
from waterclock.core.runtime.quarantine import read_record
from waterclock.proto import names
from waterclock.proto.codec import decoder

_REFRESH_AFTER = 86_400.0
"""Seconds. The stream forgets what is older than its maximum age, which is counted in days."""


class LeaseState(Struct, frozen=True, kw_only=True):
    """What the log says."""

    holder: str
    token: int
    since: datetime
    """When it was taken, by the server's clock."""


class _Claim(Struct, frozen=True):
    holder: str


_encode = msgspec.json.Encoder().encode
_decode = decoder(_Claim)


class Lease:
    """`holder` must be unique to this incarnation of the process: what carries it is taken for our own.

    `publisher`: one that repeats until the outcome is known, or a lease may be ours without our knowing.
    """

    def __init__(
        self, connection: Connection, publisher: Publisher, stream: str, subject: str, *, holder: str
    ) -> None:
        self.subject = subject
        self.token: int | None = None
        self._connection = connection
        self._publisher = publisher
        self._stream = stream
        self._holder = holder
        self._written_at = 0.0

    async def acquire(self, is_dead: Callable[[LeaseState], bool]) -> int | None:
        """Take it if it is free, ours, or held by one that is dead, and return the token; None if somebody has it."""
        stored = await self._last()
        state = None if stored is None else _state_of(stored)
        if state is not None and state.holder != self._holder and not is_dead(state):
            self.token = None
            return None
        try:
            # Our own, of which we did not know, gets a new token: something may still be under way with the old one.
            return await self._write(0 if stored is None else stored.sequence)
        except Conflict:
            self.token = None
            return None

    async def confirm(self) -> None:
        """Ask the leader of the stream whether the lease is still ours. Conflict: somebody else took it."""
        stored = await self._last()
        if self.token is None or stored is None or stored.sequence != self.token:
            self.token = None
            raise Conflict(f"{self.subject} is not held")

    async def keep_stored(self) -> None:
        """Write it again once a day, before the stream forgets it. Conflict: somebody else took it.

        This changes the token: nothing that expects it may be under way.
        """
        if self.token is not None and time.monotonic() - self._written_at > _REFRESH_AFTER:
            await self._write(self.token)

    async def release(self) -> None:
        """Give it up: the next one need not wait. What says so stays in the stream: should the server be killed and
        find older leases in its files again, the last word is still that nobody holds it."""
        token, self.token = self.token, None
        if token is None:
            return
        try:
            await self._publisher.publish(
                self.subject,
                b"",
                expect=Expect(last_subject_sequence=token),
                rollup=True,
                headers={"KV-Operation": "DEL"},
            )
        except Conflict:
            pass

    def fence(self) -> Expect:
        """What a fenced append must expect. Conflict if the lease is not held."""
        if self.token is None:
            raise Conflict(f"{self.subject} is not held")
        return Expect(last_subject_sequence=self.token, subject=self.subject)

    async def read(self) -> LeaseState | None:
        """None: nobody holds it."""
        stored = await self._last()
        return None if stored is None else _state_of(stored)

    async def _last(self) -> Stored | None:
        return await last_message(self._connection, self._stream, self.subject)

    async def _write(self, expected: int) -> int:
        self.token = await self._publisher.publish(
            self.subject,
            _encode(_Claim(self._holder)),
            expect=Expect(last_subject_sequence=expected),
            rollup=True,
        )
        self._written_at = time.monotonic()
        return self.token


def _state_of(stored: Stored) -> LeaseState | None:
    if stored.is_absent:
        return None
    claim = read_record(_decode, names.RUNS, stored, _Claim(""))  # nobody's: it is taken as a dead one's
    return LeaseState(holder=claim.holder, token=stored.sequence, since=stored.timestamp)
