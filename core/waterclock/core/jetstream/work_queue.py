"""Work taken message by message: ask for as many as there is room for, and not one more.

A `Pull` keeps requests open, which is right for one consumer and wrong for a hundred that share a few slots. Here a
request is answered at once with what is there (`no_wait`), so nothing is promised to a consumer that has nothing.
To learn that a quiet consumer has something again, listen to its subjects: what is published to the queue is a
plain message too. Such a hint may come a moment before the message is stored, and none comes for a redelivery.
"""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogUnavailable, NotFound
from waterclock.core.jetstream.messages import Delivery, delivery_of
from waterclock.core.jetstream.nats_client import Disconnected, NatsError

_LOST_AFTER = 2.0
_SECOND = 1_000_000_000

Deliver = Callable[[str, Delivery], None]
"""Called with the consumer's name and a message. Must not block or raise."""
Over = Callable[[str, int, bool], None]
"""An ask is over: the consumer, how many messages it brought, and whether the consumer is missing."""


class SweepResult(Struct, frozen=True):
    removed: int
    done: int
    """Everything up to this sequence of the stream is acked."""
    given_out: int
    """The last sequence that was handed out."""


class _Ask:
    __slots__ = ("batch", "brought", "reply", "timer")

    def __init__(self, batch: int, reply: bytes, timer: asyncio.TimerHandle) -> None:
        self.batch = batch
        self.brought = 0
        self.reply = reply
        self.timer = timer


class Acks:
    """Acknowledgements of deliveries, whoever took them. Cheap, and lost when the server is away."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ack(self, delivery: Delivery) -> None:
        self._send(delivery, b"+ACK")

    def nak(self, delivery: Delivery, delay: float | None = None) -> None:
        """Give it back: to anybody, now or after `delay` seconds."""
        self._send(delivery, b"-NAK" if delay is None else b'-NAK {"delay": %d}' % int(delay * _SECOND))

    def progress(self, delivery: Delivery) -> None:
        self._send(delivery, b"+WPI")

    def _send(self, delivery: Delivery, body: bytes) -> None:
        self._connection.nc.send_soon(b"PUB %b %d\r\n%b\r\n" % (delivery.reply.encode(), len(body), body))


def runs_in(pending: int, held: int, packed: int) -> tuple[int, int]:
    """How many runs wait and are in the hands of executors, where so many messages do, and there are so many more runs
    than messages: several travel in one. Where both happen, it is not known which have the parcels."""
    if not pending + held:
        return 0, 0
    waiting = packed * pending // (pending + held)
    return pending + waiting, held + packed - waiting


class Backlog(Struct, frozen=True, kw_only=True):
    pending: int
    oldest: bytes | None
    """The message that has waited longest without ever being delivered."""


class WorkQueue:
    def __init__(self, connection: Connection, stream: str, deliver: Deliver, over: Over) -> None:
        self._connection = connection
        self._stream = stream
        self._deliver = deliver
        self._over = over
        self._asks: dict[str, _Ask] = {}
        self._numbers = 0
        self._inbox = ""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, connection: Connection, stream: str, *, deliver: Deliver, over: Over
    ) -> AsyncIterator["WorkQueue"]:
        queue = cls(connection, stream, deliver, over)
        queue._inbox = connection.nc.new_inbox()
        end = await connection.nc.tap(f"{queue._inbox}.*", queue._receive)
        forget = connection.on_reconnect(queue._forget_asks)
        try:
            yield queue
        finally:
            forget()
            for ask in queue._asks.values():
                ask.timer.cancel()
            queue._asks.clear()
            end()

    def ask(self, consumer: str, batch: int, *, wait: float = 0.0) -> None:
        """Ask for up to `batch` messages that are there, or that come within `wait` seconds.

        One ask per consumer at a time; `over` says when it is done, also when the server is away.
        """
        assert consumer not in self._asks
        self._numbers += 1
        reply = b"%b.%d" % (self._inbox.encode(), self._numbers)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(wait + _LOST_AFTER, self._end, consumer, False)
        self._asks[consumer] = _Ask(batch, reply, timer)
        until = b'"expires":%d' % int(wait * _SECOND) if wait else b'"no_wait":true'
        body = b'{"batch":%d,%b}' % (batch, until)
        subject = f"{self._connection.api_prefix}.CONSUMER.MSG.NEXT.{self._stream}.{consumer}".encode()
        self._connection.nc.send_soon(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body))

    async def listen(self, subject: str, hint: Callable[[bytes], None]) -> Callable[[], None]:
        """Call `hint` with what is published to a subject of the queue. Returns the end."""
        try:
            return await self._connection.nc.tap(subject, lambda _s, _r, _h, data: hint(data))
        except (Disconnected, NatsError, OSError) as error:
            raise LogUnavailable(f"cannot listen to {subject}: {error}") from error

    async def backlog(self, consumer: str, subject: str) -> Backlog:
        """How much waits, and what came first of it."""
        info = await self._connection.api(f"CONSUMER.INFO.{self._stream}.{consumer}")
        pending = info["num_pending"]
        if not pending:
            return Backlog(pending=0, oldest=None)
        after = info["delivered"]["stream_seq"] + 1
        query: dict[str, Any] = {"seq": after, "next_by_subj": subject}
        try:
            answer = await self._connection.api(f"STREAM.MSG.GET.{self._stream}", query)
        except NotFound:
            return Backlog(pending=0, oldest=None)
        return Backlog(pending=pending, oldest=b64decode(answer["message"].get("data", "")))

    async def sweep(self, consumer: str, subject: str) -> SweepResult:
        """Remove what the consumer has acked and the stream still holds, up to the first that is not acked.

        A server that was killed may have lost removals that it had not synced, and remembers the acks all the same. No
        consumer will be handed such a message again, so nobody would ever remove it.
        """
        info = await self._connection.api(f"CONSUMER.INFO.{self._stream}.{consumer}")
        through, given_out = info["ack_floor"]["stream_seq"], info["delivered"]["stream_seq"]
        if not through:
            return SweepResult(0, 0, given_out)
        answer = await self._connection.api(
            f"STREAM.PURGE.{self._stream}", {"filter": subject, "seq": through + 1}
        )
        return SweepResult(int(answer["purged"]), through, given_out)

    def _receive(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        if not reply:
            self._status(subject, header)
            return
        delivery = delivery_of(subject, reply, header, payload)
        consumer = delivery.consumer
        self._deliver(consumer, delivery)
        ask = self._asks.get(consumer)
        if ask is not None:
            ask.brought += 1
            if ask.brought >= ask.batch:
                self._end(consumer, False)

    def _status(self, subject: bytes, header: bytes) -> None:
        if header.startswith(b"NATS/1.0 100"):
            return
        for consumer, ask in self._asks.items():
            if ask.reply == subject:
                self._end(consumer, missing=header.startswith(b"NATS/1.0 503"))
                return

    def _end(self, consumer: str, missing: bool) -> None:
        ask = self._asks.pop(consumer, None)
        if ask is not None:
            ask.timer.cancel()
            self._over(consumer, ask.brought, missing)

    def _forget_asks(self) -> None:
        """The server does not remember requests of an old connection."""
        for consumer in list(self._asks):
            self._end(consumer, False)
