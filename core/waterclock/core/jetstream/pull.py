"""The pull loop: messages of a stream, in order or from a work queue, through every kind of outage."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.headers import parse_headers
from waterclock.core.jetstream.wire import Disconnected


class Delivery(Struct, frozen=True, dict=True):
    subject: str
    data: bytes
    reply: str
    sequence: int
    delivered: int
    pending: int
    timestamp_ns: int
    header_block: bytes = b""

    @cached_property
    def headers(self) -> dict[str, str] | None:
        return parse_headers(self.header_block) if self.header_block else None

    @property
    def is_marker(self) -> bool:
        headers = self.headers or {}
        return "Nats-Marker-Reason" in headers or headers.get("KV-Operation") in ("DEL", "PURGE")


class Pull:
    def __init__(self, connection: Connection, stream: str, batch: int) -> None:
        self._connection = connection
        self._stream = stream
        self._batch = batch
        self._consumer = ""
        self._arrived: list[Delivery] = []
        self._some = asyncio.Event()
        self._outstanding = 0
        self._inbox = ""
        self.sequence = 0
        self.pending = 0

    @classmethod
    @asynccontextmanager
    async def ordered(
        cls,
        connection: Connection,
        stream: str,
        filter_subjects: Sequence[str],
        *,
        after_sequence: int,
        batch: int = 1000,
    ) -> AsyncIterator["Pull"]:
        pull = cls(connection, stream, batch)
        pull.sequence = after_sequence
        name = f"o-{secrets.token_hex(6)}"
        info = await connection.api(
            f"CONSUMER.CREATE.{stream}.{name}",
            {
                "stream_name": stream,
                "config": {
                    "name": name,
                    "ack_policy": "none",
                    "deliver_policy": "by_start_sequence",
                    "opt_start_seq": after_sequence + 1,
                    "filter_subjects": list(filter_subjects),
                    "mem_storage": True,
                    "num_replicas": 1,
                    "inactive_threshold": 30_000_000_000,
                },
            },
        )
        pull.pending = info["num_pending"]
        async with pull._running(name):
            yield pull

    @classmethod
    @asynccontextmanager
    async def durable(
        cls, connection: Connection, stream: str, consumer: str, *, batch: int = 500
    ) -> AsyncIterator["Pull"]:
        pull = cls(connection, stream, batch)
        async with pull._running(consumer):
            yield pull

    async def next(self, timeout: float | None = None) -> list[Delivery]:
        """Whatever has arrived, at least one; an empty list on timeout."""
        if not self._arrived:
            try:
                async with asyncio.timeout(timeout):
                    await self._some.wait()
            except TimeoutError:
                return []
        self._some.clear()
        arrived, self._arrived = self._arrived, []
        self._refill()
        return arrived

    def set_demand(self, demand: int) -> None:
        self._batch = demand

    def ack(self, delivery: Delivery) -> None:
        self._answer(delivery, b"+ACK")

    def nak(self, delivery: Delivery, delay: float | None = None) -> None:
        body = b"-NAK" if delay is None else b'-NAK {"delay": %d}' % int(delay * 1e9)
        self._answer(delivery, body)

    def progress(self, delivery: Delivery) -> None:
        self._answer(delivery, b"+WPI")

    def _answer(self, delivery: Delivery, body: bytes) -> None:
        self._connection.nc.send_soon(b"PUB %b %d\r\n%b\r\n" % (delivery.reply.encode(), len(body), body))

    @asynccontextmanager
    async def _running(self, consumer: str) -> AsyncIterator[None]:
        self._consumer = consumer
        self._inbox = self._connection.nc.new_inbox()
        end = await self._connection.nc.tap(self._inbox, self._receive)
        self._refill()
        try:
            yield
        finally:
            end()

    def _refill(self) -> None:
        if self._outstanding > self._batch // 2:
            return
        want = self._batch - self._outstanding
        body = json.dumps({"batch": want, "expires": 2_000_000_000, "idle_heartbeat": 500_000_000}).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        try:
            self._connection.nc.send(
                b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), self._inbox.encode(), len(body), body)
            )
        except Disconnected:
            return
        self._outstanding += want

    def _receive(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        if not reply:
            if not header.startswith(b"NATS/1.0 100"):
                headers = parse_headers(header)
                self._outstanding -= int(headers.get("Nats-Pending-Messages", "0"))
                self._refill()
            return
        self._outstanding -= 1
        fields = reply.split(b".")
        delivered, sequence, _, timestamp, pending = fields[4:9] if len(fields) == 9 else fields[6:11]
        self.sequence = int(sequence)
        self.pending = int(pending)
        self._arrived.append(
            Delivery(
                subject.decode(),
                payload,
                reply.decode(),
                self.sequence,
                int(delivered),
                self.pending,
                int(timestamp),
                header,
            )
        )
        self._some.set()
