"""Run events batched into frames: one message, and one fsync, for many events.

A lone event is sent at once. While a frame of its partition is in flight, or the last one was sent less than `linger`
ago, events wait for the next. One frame in flight for each partition keeps their order. Frames that waited are sent at
multiples of a common tick, so that those of many partitions are sent, and answered, together.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.errors import LogError, LogFull, LogUnavailable, TooLarge
from waterclock.core.jetstream.publisher import Publisher
from waterclock.proto import names
from waterclock.proto.events import SCHEMA_VERSION, RunEvent

logger = logging.getLogger(__name__)

MAX_EVENTS = 500
MAX_BYTES = 512 * 1024
_PIECE_EVENTS = 64
_PIECE_BYTES = 64 * 1024
"""Events that come together and are not more than this are not cut into two frames."""
_ENVELOPE = 4096
_ATTEMPT = 5.0
_PAUSE = 0.2
_TICK = 0.005
_BUSY_EVENTS = 10
"""After a frame of so many events the next waits for longer: each costs the server a sync."""
_BUSY_LINGER = 0.05
_LONGEST_LINGER = 0.1
_LINGER_EACH = 0.00625
"""Seconds for each partition there is: with more of them each has fewer frames a second."""

OnResult = Callable[[int | LogError], None]
"""Called with what became of an event: the sequence of its frame, or why the log does not have it."""

_encode = msgspec.json.Encoder().encode


class _Encoded(Struct):
    """A `Frame` whose events are already JSON."""

    writer: str
    events: msgspec.Raw
    v: int = SCHEMA_VERSION


class _Piece(Struct, frozen=True):
    """Events that travel in the same frame and have one answer: JSON, separated by commas."""

    data: bytes
    count: int
    on_result: OnResult


class FrameWriter:
    """`writer` names this process incarnation: it is how an owner knows its own frames when they come back."""

    def __init__(
        self, publisher: Publisher, *, writer: str, linger: float = 0.020, max_unacknowledged: int = 20_000
    ) -> None:
        self.unacknowledged = 0
        self._publisher = publisher
        self._writer = writer
        self._linger = linger
        self._limit = max_unacknowledged
        self._origin = secrets.token_hex(6)
        self._loop = asyncio.get_running_loop()
        self._buffers: dict[int, _PartitionBuffer] = {}
        self._senders: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self._failure: Exception | None = None

    def append(self, partition: int, event: RunEvent) -> asyncio.Future[int]:
        """Resolves with the frame's sequence once JetStream has acknowledged it, through any outage.

        An outage longer than the duplicate window (two minutes) may store a frame twice; readers of run events
        know a repeated one by its run and attempt.
        """
        future: asyncio.Future[int] = self._loop.create_future()
        self.submit(partition, event, partial(_resolve, future))
        return future

    def submit(self, partition: int, event: RunEvent, on_result: OnResult) -> None:
        """The same for whoever does not wait: `on_result` is called with the sequence, or with why there is none."""
        self.submit_all(partition, (event,), on_result)

    def submit_all(self, partition: int, events: Sequence[RunEvent], on_result: OnResult) -> None:
        """Several at once. `on_result` is called once: with the sequence of the last of them, or with why the log does
        not have one of them."""
        if self._closed:
            raise RuntimeError("the frame writer is closed")
        buffer = self._buffers.get(partition)
        if buffer is None:
            buffer = self._buffers[partition] = _PartitionBuffer(partition)
        together = _encode(events)[1:-1] if len(events) <= _PIECE_EVENTS else b""
        if together and len(together) <= _PIECE_BYTES:
            self._put(buffer, together, len(events), on_result)
        else:
            self._put_each(buffer, events, on_result)
        if not buffer.pieces:
            return
        if self.unacknowledged >= self._limit:
            self._room.clear()
        if not buffer.sending:
            buffer.sending = True
            sender = self._loop.create_task(self._send_frames(buffer))
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)

    def _put_each(self, buffer: "_PartitionBuffer", events: Sequence[RunEvent], on_result: OnResult) -> None:
        """So many or so large that they may need several frames."""
        if len(events) > 1:
            on_result = _ResultOfAll(len(events), on_result)
        for event in events:
            encoded = _encode(event)
            if len(encoded) > MAX_BYTES and len(encoded) + _ENVELOPE > self._publisher.max_payload:
                on_result(TooLarge(f"an event of {len(encoded)} bytes for {event.run_id}"))
            else:
                self._put(buffer, encoded, 1, on_result)

    def _put(self, buffer: "_PartitionBuffer", data: bytes, count: int, on_result: OnResult) -> None:
        buffer.add(_Piece(data, count, on_result))
        self.unacknowledged += count

    async def ready(self) -> None:
        """Wait while too many events are unacknowledged. Call it before taking on what will cause more.

        Raises what broke the writer, should something have that is not the log's fault.
        """
        await self._room.wait()
        if self._failure is not None:
            raise self._failure

    async def flush(self) -> None:
        """Wait until nothing is unacknowledged."""
        while self._senders:
            await asyncio.wait(self._senders)

    async def close(self, grace: float = 10.0) -> None:
        """Take no more and flush; what is not acknowledged within the grace fails as unavailable."""
        self._closed = True
        try:
            async with asyncio.timeout(grace):
                await self.flush()
        except TimeoutError:
            for sender in self._senders:
                sender.cancel()
            await self.flush()
            for buffer in self._buffers.values():
                self._settle(
                    buffer.pieces, LogUnavailable(f"closed with {buffer.count} events not acknowledged")
                )

    async def _send_frames(self, buffer: "_PartitionBuffer") -> None:
        """Send one frame after the other until the buffer is empty."""
        try:
            while buffer.pieces:
                linger = max(self._linger, self._busy_linger) if buffer.busy else self._linger
                wait = _tick_before(buffer.sent_at + linger) - self._loop.time()
                if wait > 0 and not buffer.is_full:
                    await asyncio.sleep(wait)
                buffer.sent_at = self._loop.time()
                pieces = buffer.take()
                count = sum([piece.count for piece in pieces])
                buffer.busy = count >= _BUSY_EVENTS
                try:
                    result: int | LogError = await self._deliver(buffer, pieces)
                except asyncio.CancelledError:
                    buffer.put_back(pieces)
                    raise
                except LogError as error:
                    logger.exception("a frame of %d events was refused", count)
                    result = error
                except Exception as error:
                    logger.exception("the frame writer failed")
                    self._failure = error
                    result = LogUnavailable(f"the frame writer failed: {error!r}")
                self._settle(pieces, result)
        finally:
            buffer.sending = False

    @property
    def _busy_linger(self) -> float:
        return min(max(_BUSY_LINGER, _LINGER_EACH * len(self._buffers)), _LONGEST_LINGER)

    async def _deliver(self, buffer: "_PartitionBuffer", pieces: list[_Piece]) -> int:
        buffer.number += 1
        msg_id = f"{self._origin}-{buffer.partition}-{buffer.number}"
        events = b"[%b]" % b",".join([piece.data for piece in pieces])
        data = _encode(_Encoded(self._writer, msgspec.Raw(events)))
        subject = names.runs_subject(buffer.partition)
        while True:
            try:
                return await self._publisher.publish(
                    subject, data, msg_id=msg_id, twice_is_harmless=True, deadline=_ATTEMPT
                )
            except (LogUnavailable, LogFull) as error:
                logger.warning("%d events wait for the log: %s", self.unacknowledged, error)
                await asyncio.sleep(_PAUSE)

    def _settle(self, pieces: list[_Piece], result: int | LogError) -> None:
        self.unacknowledged -= sum([piece.count for piece in pieces])
        if self.unacknowledged < self._limit:
            self._room.set()
        for piece in pieces:
            try:
                piece.on_result(result)
            except Exception:
                logger.exception("whoever wrote an event could not take the answer")


class _ResultOfAll:
    """Called with what became of each of several events, passes on what became of all of them."""

    __slots__ = ("_error", "_left", "_on_result")

    def __init__(self, count: int, on_result: OnResult) -> None:
        self._left = count
        self._on_result = on_result
        self._error: int | LogError | None = None

    def __call__(self, result: int | LogError) -> None:
        self._left -= 1
        if type(result) is not int:
            self._error = result
        if not self._left:
            self._on_result(result if self._error is None else self._error)


def _resolve(future: "asyncio.Future[int]", result: int | LogError) -> None:
    if future.done():
        return
    if isinstance(result, LogError):
        future.set_exception(result)
    else:
        future.set_result(result)


def _tick_before(time: float) -> float:
    return time - time % _TICK


class _PartitionBuffer:
    """The events of one partition that have not left yet."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.pieces: list[_Piece] = []
        self.count = 0
        """Of events."""
        self.size = 0
        self.number = 0
        self.sent_at = 0.0
        self.busy = False
        self.sending = False

    @property
    def is_full(self) -> bool:
        return self.count >= MAX_EVENTS or self.size >= MAX_BYTES

    def add(self, piece: _Piece) -> None:
        self.pieces.append(piece)
        self.count += piece.count
        self.size += len(piece.data)

    def take(self) -> list[_Piece]:
        """The next frame: as many pieces as it may hold, at least one."""
        pieces, end, count, size = self.pieces, len(self.pieces), self.count, self.size
        while (count > MAX_EVENTS or size > MAX_BYTES) and end > 1:
            end -= 1
            count -= pieces[end].count
            size -= len(pieces[end].data)
        taken, self.pieces = pieces[:end], pieces[end:]
        self.count -= count
        self.size -= size
        return taken

    def put_back(self, pieces: list[_Piece]) -> None:
        """They were taken and did not leave."""
        later, self.pieces, self.count, self.size = self.pieces, [], 0, 0
        for piece in (*pieces, *later):
            self.add(piece)
