"""The consumers that a pull reads from, and the requests it makes to them."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import NotFound
from waterclock.core.jetstream.messages import Delivery, delivery_of
from waterclock.core.jetstream.nats_client import Disconnected
from waterclock.core.jetstream.protocol import parse_headers

_IDLE_NS = 30_000_000_000


class OrderedConsumer:
    """An ephemeral consumer without acks, made anew after the last sequence seen whenever it breaks.

    A gap in the consumer's own numbers is a break too, so that every message counts exactly once.
    """

    needs_ack = False
    expires = 30.0
    """How long a request waits, in seconds: where nothing happens, asking again is all the work there is."""

    def __init__(
        self, connection: Connection, stream: str, filter_subjects: Sequence[str], *, after_sequence: int
    ) -> None:
        self.sequence = after_sequence
        self.pending = 0
        self._connection = connection
        self._stream = stream
        self._filter_subjects = list(filter_subjects)
        self._name = ""
        self._expected = 1

    async def consumer(self) -> str:
        self.discard()
        name = f"ordered-{secrets.token_hex(8)}"
        config = {
            "name": name,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.sequence + 1,
            "filter_subjects": self._filter_subjects,
            "inactive_threshold": _IDLE_NS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        subject = f"CONSUMER.CREATE.{self._stream}.{name}"
        info = await self._connection.api(subject, {"stream_name": self._stream, "config": config})
        self._name = name
        self._expected = 1
        self.pending = info["num_pending"]
        return name

    def accept(self, delivery: Delivery) -> str | None:
        """None, or why the flow is broken."""
        if delivery.consumer_sequence != self._expected:
            return f"message {self._expected} of the consumer is missing"
        self._expected += 1
        self.sequence = delivery.sequence
        self.pending = delivery.pending
        return None

    async def recount(self) -> None:
        """Ask how much is left to read: what was counted may have been removed before it was delivered."""
        with suppress(NotFound):
            info = await self._connection.api(f"CONSUMER.INFO.{self._stream}.{self._name}")
            if info["delivered"]["consumer_seq"] < self._expected:
                self.pending = info["num_pending"]

    def discard(self) -> None:
        """Let the server drop the consumer now rather than after it has been idle for a while."""
        if self._name:
            subject = f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}"
            self._connection.nc.send_soon(f"PUB {subject} 0\r\n\r\n".encode())
            self._name = ""


class DurableConsumer:
    """A named consumer that somebody else has made, and may make again."""

    needs_ack = True
    expires = 2.0
    """Not long, since a request cannot be taken back when less is wanted."""

    def __init__(
        self, connection: Connection, stream: str, name: str, restore: Callable[[], Awaitable[None]] | None
    ) -> None:
        self.sequence = 0
        self.pending = 0
        self._connection = connection
        self._stream = stream
        self._name = name
        self._restore = restore

    async def consumer(self) -> str:
        subject = f"CONSUMER.INFO.{self._stream}.{self._name}"
        try:
            info = await self._connection.api(subject)
        except NotFound:
            if self._restore is None:
                raise
            await self._restore()
            info = await self._connection.api(subject)
        self.pending = info["num_pending"]
        return self._name

    def accept(self, delivery: Delivery) -> str | None:
        self.sequence = delivery.sequence
        self.pending = delivery.pending
        return None

    async def recount(self) -> None:
        info = await self._connection.api(f"CONSUMER.INFO.{self._stream}.{self._name}")
        self.pending = info["num_pending"]

    def discard(self) -> None:
        """It is not ours to delete."""


_HEARTBEAT = 1.4
"""In a cluster a consumer can be gone while the server that we talk to is there. The watch believes it the second time,
so that is noticed in about three seconds."""
_HEARTBEAT_ALONE = 10.0
"""Of a server by itself a consumer lives as long as the connection, or says that it ends."""
_LATE = 0.8
_NO_MORE = "404"
"""Said to a request that does not wait, when it has got what was there."""


class PullRequests:
    """Requests to one consumer through one inbox, until something breaks.

    A request asks for so many messages within so many seconds, and for at most so many bytes. The server says with a
    status message how many of them it did not deliver, so the number outstanding is always known. A break is a
    reconnect, a consumer that is gone, or silence; the inbox goes with it, so that the server drops the requests it
    still knows. The server is also silent when too many requests wait on the consumer already.

    A message that is bigger than the limit in bytes ends a request that has delivered nothing. Then that one message is
    asked for without a limit.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        consumer: str,
        *,
        expires: float,
        max_bytes: int | None,
        deliver: Callable[[Delivery], None],
        room: Callable[[], None],
    ) -> None:
        """`deliver` is called with each message, `room` when requests ended without one."""
        self.outstanding = 0
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._client = connection.nc
        self._loop = asyncio.get_running_loop()
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}".encode()
        self._expires = expires
        alone = _HEARTBEAT_ALONE if expires >= 2 * _HEARTBEAT_ALONE else None
        self._heartbeat = min(_HEARTBEAT, expires / 2) if self._client.is_clustered else alone
        """None: none is asked for, since the request ends sooner."""
        self._silence = (self._heartbeat or expires) + _LATE
        self._max_bytes = max_bytes
        self._too_big = False
        """The next message is bigger than the limit."""
        self._asked_for: dict[str, int] = {}
        """How many messages each request asked for that may still be open."""
        self._inbox = ""
        self._deliver = deliver
        self._room = room
        self._numbers = count(1)
        self._heard = self._asked = self._loop.time()
        self._suspect = False
        self._timer: asyncio.TimerHandle | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._unregister = connection.on_reconnect(lambda: self.break_off("reconnected"))

    async def open(self) -> None:
        self._inbox = self._client.new_inbox()
        self._unsubscribe = await self._client.tap(f"{self._inbox}.*", self._receive)
        self._watch_again()

    def request(self, messages: int) -> None:
        waits = b'"expires":%d' % (self._expires * 1e9)
        if self._heartbeat is not None:
            waits += b',"idle_heartbeat":%d' % (self._heartbeat * 1e9)
        self._send(messages, waits)

    def request_what_is_there(self, most: int) -> None:
        """Does not wait for more. Only while nothing is outstanding."""
        self._send(most, b'"no_wait":true')

    def _send(self, messages: int, waits: bytes) -> None:
        limit = b"" if self._max_bytes is None else b',"max_bytes":%d' % self._max_bytes
        if self._too_big:
            messages, limit = 1, b""
        body = b'{"batch":%d,%b%b}' % (messages, waits, limit)
        reply = f"{self._inbox}.{next(self._numbers)}"
        try:
            self._client.send(b"PUB %b %b %d\r\n%b\r\n" % (self._subject, reply.encode(), len(body), body))
        except Disconnected:
            return
        if not self.outstanding:
            self._asked_for.clear()
        self._asked_for[reply] = messages
        self.outstanding += messages
        self._asked = self._loop.time()

    def break_off(self, reason: str) -> None:
        if not self.broken.done():
            self.broken.set_result(reason)

    def close(self) -> None:
        self._unregister()
        if self._timer is not None:
            self._timer.cancel()
        if self._unsubscribe is not None:
            self._unsubscribe()

    def _receive(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        self._heard = self._loop.time()
        if reply:
            self.outstanding -= 1
            self._too_big = False
            self._deliver(delivery_of(subject, reply, header, payload))
        elif not header.startswith(b"NATS/1.0 100"):
            self._ended(self._asked_for.pop(subject.decode(), 0), parse_headers(header))

    def _ended(self, asked_for: int, status: dict[str, str]) -> None:
        """A request is over before it got all it asked for: time or its bytes are up, or the consumer is not there."""
        left = status.get("Nats-Pending-Messages")
        if status.get("Status") == _NO_MORE:
            self.outstanding = 0
            self._room()
        elif left is None:
            self.break_off(f"{status.get('Status')} {status.get('Description')}")
        else:
            self.outstanding -= int(left)
            self._too_big = int(left) == asked_for and "MaxBytes" in status.get("Description", "")
            self._room()

    def _watch(self) -> None:
        """Silence counts only when seen twice: after a stall of our own, what came meanwhile is yet to be read."""
        now = self._loop.time()
        unanswered = now - self._asked
        silent = unanswered > self._silence and now - self._heard > self._silence
        overdue = unanswered > self._expires + self._silence
        dead = self.outstanding > 0 and (silent or overdue)
        if dead and self._suspect:
            self.break_off("silence")
            return
        self._suspect = dead
        self._watch_again()

    def _watch_again(self) -> None:
        """All pulls of a process at the same moments: it wakes up once for all of them."""
        step = self._silence / 3
        self._timer = self._loop.call_at((self._loop.time() // step + 1) * step, self._watch)
