"""Publishing to JetStream: every call ends by its deadline, acknowledged, refused or unknown."""

import asyncio
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from itertools import count
from math import ceil

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import AlreadyQueued, LogError, LogUnavailable, TooLarge, error_of
from waterclock.core.jetstream.wire import Disconnected

_ATTEMPT = 2.0
_PAUSE = 0.05
_CHUNK = 500
_BAD_SUBJECT = re.compile(r"[\s*>]")


class Expect(Struct, frozen=True, kw_only=True):
    """The compare of compare-and-set: the last sequence of the message's own subject, or of another one."""

    last_subject_sequence: int
    subject: str | None = None


class Message(Struct, frozen=True, kw_only=True):
    subject: str
    data: bytes
    headers: Mapping[str, str] | None = None
    expect: Expect | None = None


class Publisher:
    def __init__(self, connection: Connection, *, window: int = 256) -> None:
        self._connection = connection
        self._window = asyncio.Semaphore(window)
        self._origin = secrets.token_hex(6)
        self._ids = count(1)

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        msg_id: str | None = None,
        expect: Expect | None = None,
        ttl_seconds: float | None = None,
        rollup: bool = False,
        headers: Mapping[str, str] | None = None,
        deadline: float = 5.0,
    ) -> int:
        """Publish and return the stream sequence.

        An attempt whose outcome is unknown is repeated with the same id and the same expectation until the
        deadline; without a `msg_id` one is made, so a repeat is never stored twice.
        """
        all_headers = dict(headers or {})
        all_headers["Nats-Msg-Id"] = msg_id or f"{self._origin}-{next(self._ids)}"
        _add_expect(all_headers, expect)
        if ttl_seconds is not None:
            all_headers["Nats-TTL"] = f"{ceil(ttl_seconds)}s"
        if rollup:
            all_headers["Nats-Rollup"] = "sub"
        async with self._window:
            return await self._acknowledged(
                [Message(subject=subject, data=data, headers=all_headers)], deadline
            )

    async def publish_batch(
        self, messages: Sequence[Message], *, expect: Expect | None = None, deadline: float = 5.0
    ) -> int:
        """All of them or none (ADR-50): at most 1000. Returns the sequence of the last one.

        `expect` guards the first message; each message may also carry its own. The checks see the state before
        the batch.
        """
        batch = f"{self._origin}-{next(self._ids)}"
        framed = []
        for number, message in enumerate(messages, 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number), **(message.headers or {})}
            _add_expect(headers, expect if number == 1 and expect is not None else message.expect)
            if number == len(messages):
                headers["Nats-Batch-Commit"] = "1"
            framed.append(Message(subject=message.subject, data=message.data, headers=headers))
        async with self._window:
            return await self._acknowledged(framed, deadline)

    async def publish_work(self, messages: Sequence[Message], *, deadline: float = 5.0) -> None:
        """Publish many in a few writes, asking for an acknowledgement of the last of every 500 only.

        One stream takes a connection's messages in order, so that acknowledgement says the ones before it were
        handled too: stored, or refused because the queue already holds them. Whatever else may have happened to
        them is not known here, and need not be: `WORK` is derived, its owner compares it with `RUNS`.
        """
        for start in range(0, len(messages), _CHUNK):
            async with self._window:
                try:
                    await self._acknowledged(messages[start : start + _CHUNK], deadline)
                except AlreadyQueued:
                    pass

    async def _acknowledged(self, messages: Sequence[Message], deadline: float) -> int:
        """Send the messages in one write, the last with a reply, until it is acknowledged or time is up."""
        try:
            async with asyncio.timeout(deadline):
                return await self._attempts(messages)
        except TimeoutError as error:
            raise LogUnavailable(
                f"no acknowledgement of {messages[-1].subject} within {deadline:g} s"
            ) from error

    async def _attempts(self, messages: Sequence[Message]) -> int:
        connection = self._connection
        head = b"".join([command(message, "") for message in messages[:-1]])
        while True:
            await connection.connected()
            reply, answer = connection.inbox.expect()
            try:
                connection.nc.send(head + command(messages[-1], reply))
                await connection.nc.drain_socket()
                async with asyncio.timeout(_ATTEMPT):
                    header, payload = await answer
                return _sequence(header, payload)
            except (Disconnected, TimeoutError, LogUnavailable):
                await asyncio.sleep(_PAUSE)
            finally:
                answer.cancel()


def command(message: Message, reply: str) -> bytes:
    """The HPUB or PUB of a message."""
    subject, data = message.subject, message.data
    if not subject or _BAD_SUBJECT.search(subject):
        raise ValueError(f"not a subject to publish on: {subject!r}")
    to = f"{subject} {reply}" if reply else subject
    if not message.headers:
        return b"PUB %b %d\r\n%b\r\n" % (to.encode(), len(data), data)
    block = _header_block(message.headers)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (to.encode(), len(block), len(block) + len(data), block, data)


def _header_block(headers: Mapping[str, str]) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers):
        raise ValueError("a header must not contain a line break")
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def _add_expect(headers: dict[str, str], expect: Expect | None) -> None:
    if expect is not None:
        headers["Nats-Expected-Last-Subject-Sequence"] = str(expect.last_subject_sequence)
        if expect.subject is not None:
            headers["Nats-Expected-Last-Subject-Sequence-Subject"] = expect.subject


def _sequence(header: bytes, payload: bytes) -> int:
    if header.startswith(b"NATS/1.0 503"):
        raise LogUnavailable("no stream listens")
    answer = json.loads(payload)
    if "error" in answer:
        raise error_of(answer["error"])
    return int(answer["seq"])


__all__ = ["Expect", "LogError", "Message", "Publisher", "TooLarge", "command"]
