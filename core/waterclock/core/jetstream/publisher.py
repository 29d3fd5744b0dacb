"""Publishing to JetStream: every call ends acknowledged, refused, or at its deadline unknown.

An attempt without an answer is unknown: stored or not. It is repeated with the same message id and the same
expectation, so it is never stored twice. Two things could spoil that, and for both the log is read:
- The server compares the expectation before the id, so what refuses a repeat may be our own first attempt.
- The server forgets ids, after a while or when it is restarted: before a repeat that it might not recognize, we look
  whether the first attempt is there, unless its readers know a repeated one. One that is stored just after we
  looked, the server still remembers.
In a cluster there is a third: an attempt that waits for a majority is not in the log yet, and what is sent after it is
refused because of it. A refusal that the log contradicts, as all is there that was expected, is none.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import ceil

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection, Reply
from waterclock.core.jetstream.errors import (
    AlreadyQueued,
    Conflict,
    Duplicate,
    LogError,
    LogFull,
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
from waterclock.proto import names

logger = logging.getLogger(__name__)

MAX_BATCH = 1000
DEADLINE = 5.0
_ATTEMPT = 2.0
_LONGEST_ATTEMPT = 16.0
"""An attempt that was not answered is given twice the time: to repeat at once what is slow makes it slower."""
_STALL = 0.05
_IDS_KEPT = 15.0
"""Ids are surely remembered for so long; the least of our duplicate windows is 30 s."""
_PAUSE = 0.05
_PAUSE_FULL = 1.0
_SAY_SO = 10.0
_CHUNK = 500
_MOST_LOOKED_AT = 4
"""If more than so many subjects were expected to be as they were, a refusal is believed."""
_NOT_SETTLED = (Disconnected, TimeoutError, LogUnavailable, LogFull, Conflict, Duplicate)
"""What may be the answer to an attempt, and is not the end of it."""


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
    """`deadline`: how long a publish is repeated, unless it says so itself. None: until the outcome is known, and while
    the stream is full; then only what the server refuses for good is an error.
    """

    def __init__(
        self, connection: Connection, *, window: int = 256, deadline: float | None = DEADLINE
    ) -> None:
        self._connection = connection
        self._window = asyncio.Semaphore(window)
        self._deadline = deadline
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
        after: int | None = None,
        may_be_stored: bool = False,
        twice_is_harmless: bool = False,
        deadline: float | None = None,
    ) -> int:
        """Publish one message; returns its stream sequence.

        A time to live is rounded up to whole seconds, since the server would cut 1.9 to 1. `rollup` removes what
        the subject held before. `after`: a sequence that this message will stand after, to look for it from there.
        `may_be_stored`: under this id, by an earlier call. `twice_is_harmless`: its readers know a repeated one, so
        it is repeated without a look into the log, which not everybody may read.
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
        witness = _Witness(
            subject,
            (identity,),
            after=_floor([expect], after),
            expected=_expected([(subject, expect)]),
            may_be_stored=may_be_stored,
            look=not twice_is_harmless,
        )
        sequence = await self._acknowledged(
            lambda reply: self._command(message, reply), witness, deadline or self._deadline
        )
        TRAFFIC.published += 1
        return sequence

    async def publish_batch(
        self,
        messages: Sequence[Message],
        *,
        expect: Expect | None = None,
        after: int | None = None,
        deadline: float | None = None,
    ) -> int:
        """All of them or none (ADR-50), at most 1000; returns the sequence of the last.

        `expect` guards the first message, and each may carry its own; all are compared with the state before the
        batch. Duplicate means that an id of the caller's is already stored: read back and decide for each.
        `after`: as in `publish`.
        """
        if not 0 < len(messages) <= MAX_BATCH:
            raise ValueError(f"a batch has 1 to {MAX_BATCH} messages, not {len(messages)}")
        fields = [dict(m.headers or {}) | (_expectation(m.expect) if m.expect else {}) for m in messages]
        if expect is not None:
            fields[0] |= _expectation(expect)
        subject = messages[-1].subject
        floor = _floor([expect, *(message.expect for message in messages)], after)
        expected = _expected([(subject, expect), *((each.subject, each.expect) for each in messages)])
        fields[-1].setdefault("Nats-Msg-Id", self._fresh_id())
        ids = tuple(each["Nats-Msg-Id"] for each in fields if "Nats-Msg-Id" in each)
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

        witness = _Witness(subject, ids, floor, expected)
        sequence = await self._acknowledged(write, witness, deadline or self._deadline)
        TRAFFIC.published += len(messages)
        return sequence

    async def publish_work(
        self,
        messages: Sequence[Message],
        *,
        deadline: float = 5.0,
        still: Callable[[], bool] | None = None,
    ) -> None:
        """Publish many in a few writes, asking for an acknowledgement only of the last of every 500.

        A stream takes the messages of a connection in order, so that one acknowledgement says that those before
        it were handled too: stored, or refused because the queue holds them already. Should one of them be
        refused for another reason, that is not seen here: `WORK` is derived, and its owner reconciles it with
        `RUNS`.

        Waits for the server until the deadline, but does not repeat what may have arrived: after a restart the
        queue has forgotten the ids of what was executed and acked meanwhile, so only the owner can repeat it,
        with `recovered` set. `still`: asked before each write; once it is False, nothing more is sent.
        """
        try:
            async with asyncio.timeout(deadline):
                for start in range(0, len(messages), _CHUNK):
                    async with self._window:
                        await self._once(messages[start : start + _CHUNK], still)
                TRAFFIC.work += len(messages)
        except TimeoutError as error:
            raise LogUnavailable(f"no acknowledgement of work within {deadline:g} s") from error

    def send_work(self, message: Message) -> None:
        """Send one without asking whether it got there. Raises Disconnected."""
        self._connection.nc.send(self._command(message, ""))
        TRAFFIC.work += 1

    async def _once(self, messages: Sequence[Message], still: Callable[[], bool] | None) -> None:
        inbox = self._connection.inbox
        sent = False
        while not sent:
            await self._connection.connected()
            if still is not None and not still():
                raise LogUnavailable("too late to send work: somebody else may have sent it meanwhile")
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
        self, write: Callable[[str], bytes], witness: "_Witness", deadline: float | None
    ) -> int:
        """Send what `write` gives for a reply subject until it is answered for certain, or time is up. Nearly always
        the first attempt is: nothing is prepared for others before it has failed."""
        began = time.monotonic()
        failed: Exception | None = None
        if self._connection.is_up and not witness.may_be_stored and not self._window.locked():
            try:
                async with self._window:
                    return await self._attempt(write, min(_ATTEMPT, deadline or _ATTEMPT))
            except _NOT_SETTLED as error:
                failed = error
        repeats = _Repeats(witness, began, patient=deadline is None)
        return await self._until_known(write, repeats, failed, deadline)

    async def _until_known(
        self,
        write: Callable[[str], bytes],
        repeats: "_Repeats",
        failed: Exception | None,
        deadline: float | None,
    ) -> int:
        """`failed`: what became of an attempt that was made already."""
        witness = repeats.witness
        refusal: LogError | None = None
        try:
            async with asyncio.timeout(repeats.time_left(deadline)), self._window:
                while True:
                    try:
                        if failed is not None:
                            first, failed = failed, None
                            raise first
                        await self._connection.connected()
                        if refusal is not None or repeats.id_may_be_forgotten:
                            if (found := await self._find(witness)) is not None:
                                return found
                            if refusal is not None:
                                if not await self._is_contradicted(refusal, witness):
                                    raise refusal
                                repeats.put_off(LogUnavailable(f"it is being written already: {refusal}"))
                                refusal = None
                                await asyncio.sleep(repeats.pause)
                        return await self._attempt(write, repeats.attempt)
                    except (Disconnected, TimeoutError) as error:
                        repeats.unanswered(error)
                    except (LogUnavailable, LogFull) as error:
                        repeats.put_off(error)
                    except (Conflict, Duplicate) as error:
                        if refusal is not None:
                            raise
                        TRAFFIC.refused[type(error).__name__] += 1
                        if not repeats.unknown:
                            raise
                        refusal = error
                        continue
                    await asyncio.sleep(repeats.pause)
        except TimeoutError as error:
            because = reason_of(repeats.reason or self._connection.last_error or error)
            raise LogUnavailable(
                f"{witness.subject} not acknowledged within {deadline or 0:g} s: {because}"
            ) from error

    async def _attempt(self, write: Callable[[str], bytes], seconds: float) -> int:
        inbox = self._connection.inbox
        reply, answer = inbox.expect()
        timer = asyncio.get_running_loop().call_later(seconds, _time_is_up, answer)
        try:
            self._connection.nc.send(write(reply))
            await self._connection.nc.drain_socket()
            return _sequence(*await answer)
        finally:
            timer.cancel()
            inbox.forget(reply)

    async def _find(self, witness: "_Witness") -> int | None:
        """The sequence of our own earlier attempt if it is in the log. Duplicate: only the beginning of it is."""
        known = False
        stream = await self._stream_of(witness.subject)
        if witness.after is None:
            stored = await last_message(self._connection, stream, witness.subject)
        else:
            stored = await next_message(self._connection, stream, witness.subject, witness.after)
        while stored is not None:
            msg_id = stored.headers.get("Nats-Msg-Id")
            if msg_id == witness.ids[-1]:
                return stored.sequence
            known = known or msg_id in witness.ids
            stored = await next_message(self._connection, stream, witness.subject, stored.sequence)
        if known:
            raise Duplicate(f"a part of what was published to {witness.subject} is stored")
        return None

    async def _is_contradicted(self, refusal: LogError, witness: "_Witness") -> bool:
        """Whether the log has just what was expected: an attempt of ours is under way."""
        if isinstance(refusal, Duplicate) or not 0 < len(witness.expected) <= _MOST_LOOKED_AT:
            return False
        for subject, sequence in witness.expected:
            stored = await last_message(self._connection, await self._stream_of(subject), subject)
            if (0 if stored is None else stored.sequence) != sequence:
                return False
        return True

    async def _stream_of(self, subject: str) -> str:
        """That of a bucket is known by its name: executors may not ask for it."""
        kind, _, rest = subject.partition(".")
        bucket = rest.partition(".")[0]
        match kind:
            case "$KV":
                return names.kv_stream(bucket)
            case "$O":
                return names.object_stream(bucket)
            case _:
                found = await self._connection.api("STREAM.NAMES", {"subject": subject})
                stream: str = found["streams"][0]
                return stream

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


class _Repeats:
    """What is known about the attempts to publish one thing. `patient`: it has no deadline."""

    def __init__(self, witness: "_Witness", began: float, *, patient: bool) -> None:
        self.unknown = witness.may_be_stored
        """An attempt may have been stored."""
        self.reason: Exception | None = None
        self.attempt = _ATTEMPT
        self.pause = _PAUSE
        self.witness = witness
        self._patient = patient
        self._began = began
        self._disconnected = witness.may_be_stored
        self._said = False

    def time_left(self, deadline: float | None) -> float | None:
        return None if deadline is None else self._began + deadline - time.monotonic()

    @property
    def id_may_be_forgotten(self) -> bool:
        """So that we have to look whether an attempt was stored, before the next one."""
        if not (self.witness.look and self.unknown):
            return False
        return self._disconnected or time.monotonic() - self._began > _IDS_KEPT

    def unanswered(self, error: Exception) -> None:
        TRAFFIC.repeated += 1
        self.unknown = True
        if isinstance(error, Disconnected):
            self._disconnected = True
        else:
            self.attempt = min(2 * self.attempt, _LONGEST_ATTEMPT)
        self._wait(error, _PAUSE)

    def put_off(self, error: LogError) -> None:
        """The server does not take it for now."""
        is_full = isinstance(error, LogFull)
        if is_full and not self._patient:
            raise error
        self._wait(error, _PAUSE_FULL if is_full else _PAUSE)

    def _wait(self, error: Exception, pause: float) -> None:
        self.reason, self.pause = error, pause
        waits_long = isinstance(error, LogFull) or time.monotonic() - self._began > _SAY_SO
        if self._patient and waits_long and not self._said:
            self._said = True
            logger.warning("%s waits for the log: %s", self.witness.subject, reason_of(error))


class _Witness(Struct, frozen=True):
    """Where an earlier attempt of ours would be: after a sequence that it expected, else the last message."""

    subject: str
    ids: tuple[str, ...]
    """Of all its messages that have one; the last has."""
    after: int | None
    expected: tuple[tuple[str, int], ...] = ()
    """Subjects and their last sequences."""
    may_be_stored: bool = False
    look: bool = True


class _Answer(Struct, frozen=True):
    seq: int = 0
    error: dict[str, str | int] | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def _time_is_up(answer: "asyncio.Future[Reply]") -> None:
    """If it was our own loop that stood still, the answer is in the socket and not read yet: look again in a moment."""
    asyncio.get_running_loop().call_later(_STALL, _give_up, answer)


def _give_up(answer: "asyncio.Future[Reply]") -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
        answer.exception()  # seen: whoever asked may have given up already


def _sequence(header: bytes, payload: bytes) -> int:
    if header.startswith(b"NATS/1.0 503"):
        raise NoResponders("no stream takes it")
    answer = _decode(payload)
    if answer.error is not None:
        raise error_of(answer.error)
    return answer.seq


def _floor(expects: Sequence[Expect | None], after: int | None) -> int | None:
    """A sequence that our message comes after: what it expected was in the stream before it."""
    expected = (expect.last_subject_sequence for expect in expects if expect is not None)
    return max((*expected, *(() if after is None else (after,))), default=None)


def _expected(expects: Sequence[tuple[str, Expect | None]]) -> tuple[tuple[str, int], ...]:
    found = {
        (expect.subject or subject, expect.last_subject_sequence)
        for subject, expect in expects
        if expect is not None
    }
    return tuple(found)


def _expectation(expect: Expect) -> dict[str, str]:
    headers = {"Nats-Expected-Last-Subject-Sequence": str(expect.last_subject_sequence)}
    if expect.subject is not None:
        headers["Nats-Expected-Last-Subject-Sequence-Subject"] = expect.subject
    return headers
