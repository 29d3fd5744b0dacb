"""Publishing to JetStream: every call ends by its deadline, acknowledged, refused or unknown.

An attempt without an answer is unknown: stored or not. It is repeated with the same message id and the same
expectation, so it is never stored twice. But the server compares the expectation before the id, and after a
restart it may have forgotten the id; so what refuses a repeat may be our own first attempt. Then the log is
read to see whose message it was.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import ceil

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import (
    AlreadyQueued,
    Conflict,
    Duplicate,
    LogError,
    LogUnavailable,
    NoResponders,
    TooLarge,
    error_of,
    reason_of,
)
from waterclock.core.jetstream.messages import last_message, next_message
from waterclock.core.jetstream.nats_client import Disconnected
from waterclock.core.jetstream.protocol import publish_command
from waterclock.core.runtime.jetstream_counters import TRAFFIC

logger = logging.getLogger(__name__)

MAX_BATCH = 1000
_ATTEMPT = 2.0
_PAUSE = 0.05
_CHUNK = 500


class Expect(Struct, frozen=True, kw_only=True):
    """The compare of compare-and-set: the last sequence of the message's own subject, or of another one."""

    last_subject_sequence: int
    subject: str | None = None


class Message(Struct, frozen=True, kw_only=True):
    subject: str
    data: bytes
    headers: Mapping[str, str] | None = None
    expect: Expect | None = None
    """Honoured by `publish_batch`."""


class Publisher:
    def __init__(self, connection: Connection, *, window: int = 256) -> None:
        self._connection = connection
        self._window = asyncio.Semaphore(window)
        self._origin = secrets.token_hex(6)
        self._numbers = count(1)

    @property
    def max_payload(self) -> int:
        """What the server takes for headers and data together."""
        return self._connection.nc.max_payload

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
        """Publish one message; returns its stream sequence.

        A time to live is rounded up to whole seconds, since the server would cut 1.9 to 1. `rollup` removes what
        the subject held before.
        """
        fields = dict(headers or {})
        identity = msg_id or fields.get("Nats-Msg-Id") or self._fresh_id()
        fields["Nats-Msg-Id"] = identity
        if ttl_seconds is not None:
            fields["Nats-TTL"] = f"{max(1, ceil(ttl_seconds))}s"
        if rollup:
            fields["Nats-Rollup"] = "sub"
        if expect is not None:
            fields |= _expectation(expect)
        message = Message(subject=subject, data=data, headers=fields)
        witness = _Witness(subject, identity, after=_floor([expect]))
        sequence = await self._acknowledged(
            lambda reply: self._command(message, reply), subject, witness, deadline
        )
        TRAFFIC.published += 1
        return sequence

    async def publish_batch(
        self, messages: Sequence[Message], *, expect: Expect | None = None, deadline: float = 5.0
    ) -> int:
        """All of them or none (ADR-50), at most 1000; returns the sequence of the last.

        `expect` guards the first message, and each may carry its own; all are compared with the state before the
        batch. Duplicate means that an id of the caller's is already stored: read back and decide for each.
        """
        if not 0 < len(messages) <= MAX_BATCH:
            raise ValueError(f"a batch has 1 to {MAX_BATCH} messages, not {len(messages)}")
        fields = [dict(m.headers or {}) | (_expectation(m.expect) if m.expect else {}) for m in messages]
        if expect is not None:
            fields[0] |= _expectation(expect)
        subject = messages[-1].subject
        floor = _floor([expect, *(message.expect for message in messages)])
        identity = fields[-1].setdefault("Nats-Msg-Id", self._fresh_id())
        fields[-1]["Nats-Batch-Commit"] = "1"

        def write(reply: str) -> bytes:
            batch = self._fresh_id()
            for number, each in enumerate(fields, 1):
                each["Nats-Batch-Id"] = batch
                each["Nats-Batch-Sequence"] = str(number)
            stamped = [
                Message(subject=m.subject, data=m.data, headers=f)
                for m, f in zip(messages, fields, strict=True)
            ]
            return self._commands(stamped, reply)

        sequence = await self._acknowledged(write, subject, _Witness(subject, identity, floor), deadline)
        TRAFFIC.published += len(messages)
        return sequence

    async def publish_work(self, messages: Sequence[Message], *, deadline: float = 5.0) -> None:
        """Publish many in a few writes, asking for an acknowledgement only of the last of every 500.

        A stream takes the messages of a connection in order, so that one acknowledgement says that those before
        it were handled too: stored, or refused because the queue holds them already. Should one of them be
        refused for another reason, that is not seen here: `WORK` is derived, and its owner reconciles it with
        `RUNS`.

        Waits for the server until the deadline, but does not repeat what may have arrived: after a restart the
        queue has forgotten the ids of what was executed and acked meanwhile, so only the owner can repeat it,
        with `recovered` set.
        """
        try:
            async with asyncio.timeout(deadline):
                for start in range(0, len(messages), _CHUNK):
                    async with self._window:
                        await self._once(messages[start : start + _CHUNK])
                TRAFFIC.work += len(messages)
        except TimeoutError as error:
            raise LogUnavailable(f"no acknowledgement of work within {deadline:g} s") from error

    async def _once(self, messages: Sequence[Message]) -> None:
        inbox = self._connection.inbox
        sent = False
        while not sent:
            await self._connection.connected()
            reply, answer = inbox.expect()
            try:
                self._connection.nc.send(self._commands(messages, reply))
                sent = True
                await self._connection.nc.drain_socket()
                _sequence(*await answer)
            except AlreadyQueued:
                TRAFFIC.refused["AlreadyQueued"] += 1
            except Disconnected as error:
                if sent:
                    raise LogUnavailable("the server went before it acknowledged work") from error
                await asyncio.sleep(_PAUSE)
            finally:
                inbox.forget(reply)

    async def _acknowledged(
        self, write: Callable[[str], bytes], subject: str, witness: "_Witness", deadline: float
    ) -> int:
        """Send what `write` gives for a reply subject until it is answered for certain, or time is up."""
        reason: Exception | None = None
        unknown = False
        try:
            async with asyncio.timeout(deadline), self._window:
                while True:
                    await self._connection.connected()
                    try:
                        return await self._attempt(write)
                    except (Disconnected, TimeoutError) as error:
                        reason, unknown = error, True
                        TRAFFIC.repeated += 1
                    except LogUnavailable as error:
                        reason = error
                    except (Conflict, Duplicate) as error:
                        TRAFFIC.refused[type(error).__name__] += 1
                        if not unknown:
                            raise
                        return await self._ours(witness, error)
                    await asyncio.sleep(_PAUSE)
        except TimeoutError as error:
            because = reason_of(reason or self._connection.last_error or error)
            raise LogUnavailable(f"{subject} not acknowledged within {deadline:g} s: {because}") from error

    async def _attempt(self, write: Callable[[str], bytes]) -> int:
        inbox = self._connection.inbox
        reply, answer = inbox.expect()
        try:
            async with asyncio.timeout(_ATTEMPT):
                self._connection.nc.send(write(reply))
                await self._connection.nc.drain_socket()
                return _sequence(*await answer)
        finally:
            inbox.forget(reply)

    async def _ours(self, witness: "_Witness", refusal: LogError) -> int:
        """The sequence of our own earlier attempt if it is in the log, else the refusal."""
        found = await self._connection.api("STREAM.NAMES", {"subject": witness.subject})
        stream = found["streams"][0]
        if witness.after is None:
            stored = await last_message(self._connection, stream, witness.subject)
        else:
            stored = await next_message(self._connection, stream, witness.subject, witness.after)
        while stored is not None:
            if stored.headers.get("Nats-Msg-Id") == witness.msg_id:
                return stored.sequence
            stored = await next_message(self._connection, stream, witness.subject, stored.sequence)
        raise refusal

    def _commands(self, messages: Sequence[Message], reply: str) -> bytes:
        """One buffer; only the last message asks for a reply."""
        commands = [self._command(message, "") for message in messages[:-1]]
        commands.append(self._command(messages[-1], reply))
        return b"".join(commands)

    def _command(self, message: Message, reply: str) -> bytes:
        command = publish_command(message.subject, reply, message.headers, message.data)
        if len(command) > self._connection.nc.max_payload:
            raise TooLarge(
                f"{len(message.data)} bytes for {message.subject}, the server takes {self.max_payload}"
            )
        return command

    def _fresh_id(self) -> str:
        return f"{self._origin}-{next(self._numbers)}"


class _Witness(Struct, frozen=True):
    """Where an earlier attempt of ours would be: after a sequence that it expected, else the last message."""

    subject: str
    msg_id: str
    after: int | None


class _Answer(Struct, frozen=True):
    seq: int = 0
    error: dict[str, str | int] | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def _sequence(header: bytes, payload: bytes) -> int:
    if header.startswith(b"NATS/1.0 503"):
        raise NoResponders("no stream takes it")
    answer = _decode(payload)
    if answer.error is not None:
        raise error_of(answer.error)
    return answer.seq


def _floor(expects: Sequence[Expect | None]) -> int | None:
    """A sequence that our message comes after: what it expected was in the stream before it."""
    return max((expect.last_subject_sequence for expect in expects if expect is not None), default=None)


def _expectation(expect: Expect) -> dict[str, str]:
    headers = {"Nats-Expected-Last-Subject-Sequence": str(expect.last_subject_sequence)}
    if expect.subject is not None:
        headers["Nats-Expected-Last-Subject-Sequence-Subject"] = expect.subject
    return headers
