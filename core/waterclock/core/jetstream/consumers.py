"""Where a pull gets its consumer from, and which of its deliveries count.

A message as a consumer hands it out. All that is known about it travels in its reply subject.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import NotFound
from waterclock.core.jetstream.protocol import is_absent, parse_headers


class Delivery(Struct, frozen=True, gc=False):
    subject: str
    data: bytes
    reply: str
    sequence: int
    """In the stream."""
    delivered: int
    """How often it was handed out, this time included."""
    pending: int
    """How many more the consumer had for us at that moment."""
    timestamp_ns: int
    header_block: bytes = b""
    consumer_sequence: int = 0
    consumer: str = ""

    @property
    def headers(self) -> dict[str, str] | None:
        """Parsed at every access: few readers need them."""
        return parse_headers(self.header_block) if self.header_block else None

    @property
    def is_absent(self) -> bool:
        """Whether it only says that there is nothing."""
        return bool(self.header_block) and is_absent(parse_headers(self.header_block), self.timestamp_ns)


def delivery_of(subject: bytes, reply: bytes, header: bytes, payload: bytes) -> Delivery:
    """Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`.

    The newer form has domain and account before the stream, and may have a token at the end.
    """
    text = reply.decode()
    fields = text.split(".")
    first = 4 if len(fields) == 9 else 6
    delivered, sequence, consumer_sequence, timestamp, pending = fields[first : first + 5]
    return Delivery(
        subject.decode(),
        payload,
        text,
        int(sequence),
        int(delivered),
        int(pending),
        int(timestamp),
        header,
        int(consumer_sequence),
        fields[first - 1],
    )


_IDLE_NS = 30_000_000_000


class OrderedSource:
    """An ephemeral consumer without acks, made anew after the last sequence seen whenever it breaks.

    A gap in the consumer's own numbers is a break too, so that every message counts exactly once.
    """

    needs_ack = False

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


class DurableSource:
    """A named consumer that somebody else has made, and may make again."""

    needs_ack = True

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
