"""Run events gathered into frames: one message, and one fsync, for many events.

A lone event goes at once. While a frame of its partition is in flight, or the last one left less than `linger`
ago, events gather for the next. One frame in flight for each partition keeps their order. Frames that have lingered
leave on the strokes of a common clock, so that those of many partitions travel, and are answered, together.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
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
_ENVELOPE = 4096
_ATTEMPT = 5.0
_PAUSE = 0.2
_STROKE = 0.005
_CROWD = 10
"""After a frame of so many events the next gathers for longer: each costs the server a sync."""
_CROWDED_LINGER = 0.05

Heard = Callable[[int | LogError], None]
"""Called with what became of an event: the sequence of its frame, or why the log does not have it."""

_encode = msgspec.json.Encoder().encode


class _Encoded(Struct):
    """A `Frame` whose events are already JSON."""

    writer: str
    events: list[msgspec.Raw]
    v: int = SCHEMA_VERSION


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
        self._lanes: dict[int, _Lane] = {}
        self._carriers: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    def append(self, partition: int, event: RunEvent) -> asyncio.Future[int]:
        """Resolves with the frame's sequence once JetStream has acknowledged it, through any outage.

        An outage longer than the duplicate window (two minutes) may store a frame twice; readers of run events
        know a repeated one by its run and attempt.
        """
        future: asyncio.Future[int] = self._loop.create_future()
        self.post(partition, event, partial(_resolve, future))
        return future

    def post(self, partition: int, event: RunEvent, heard: Heard) -> None:
        """The same for whoever does not wait: `heard` is called with the sequence, or with why there is none."""
        if self._closed:
            raise RuntimeError("the frame writer is closed")
        encoded = _encode(event)
        if len(encoded) > MAX_BYTES and len(encoded) + _ENVELOPE > self._publisher.max_payload:
            heard(TooLarge(f"an event of {len(encoded)} bytes for {event.run_id}"))
            return
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane(partition)
        lane.events.append(encoded)
        lane.heard.append(heard)
        lane.size += len(encoded)
        self.unacknowledged += 1
        if self.unacknowledged >= self._limit:
            self._room.clear()
        if not lane.carried:
            lane.carried = True
            carrier = self._loop.create_task(self._carry(lane))
            self._carriers.add(carrier)
            carrier.add_done_callback(self._carriers.discard)

    async def ready(self) -> None:
        """Wait while too many events are unacknowledged. Call it before taking on what will cause more."""
        await self._room.wait()

    async def flush(self) -> None:
        """Wait until nothing is unacknowledged."""
        while self._carriers:
            await asyncio.wait(self._carriers)

    async def close(self, grace: float = 10.0) -> None:
        """Take no more and flush; what is not acknowledged within the grace fails as unavailable."""
        self._closed = True
        try:
            async with asyncio.timeout(grace):
                await self.flush()
        except TimeoutError:
            for carrier in self._carriers:
                carrier.cancel()
            await self.flush()
            for lane in self._lanes.values():
                self._settle(
                    lane.heard, LogUnavailable(f"closed with {len(lane.heard)} events not acknowledged")
                )

    async def _carry(self, lane: "_Lane") -> None:
        """Send one frame after the other until the lane is empty."""
        try:
            while lane.events:
                linger = max(self._linger, _CROWDED_LINGER) if lane.crowded else self._linger
                wait = _stroke_before(lane.left + linger) - self._loop.time()
                if wait > 0 and not lane.is_full:
                    await asyncio.sleep(wait)
                lane.left = self._loop.time()
                events, heard = lane.take()
                lane.crowded = len(events) >= _CROWD
                try:
                    result: int | LogError = await self._deliver(lane, events)
                except asyncio.CancelledError:
                    lane.heard[:0] = heard
                    raise
                except LogError as error:
                    logger.exception("a frame of %d events was refused", len(events))
                    result = error
                self._settle(heard, result)
        finally:
            lane.carried = False

    async def _deliver(self, lane: "_Lane", events: list[bytes]) -> int:
        lane.number += 1
        msg_id = f"{self._origin}-{lane.partition}-{lane.number}"
        data = _encode(_Encoded(self._writer, [msgspec.Raw(event) for event in events]))
        subject = names.runs_subject(lane.partition)
        while True:
            try:
                return await self._publisher.publish(subject, data, msg_id=msg_id, deadline=_ATTEMPT)
            except (LogUnavailable, LogFull) as error:
                logger.warning("%d events wait for the log: %s", self.unacknowledged, error)
                await asyncio.sleep(_PAUSE)

    def _settle(self, heard: list[Heard], result: int | LogError) -> None:
        self.unacknowledged -= len(heard)
        if self.unacknowledged < self._limit:
            self._room.set()
        for hear in heard:
            try:
                hear(result)
            except Exception:
                logger.exception("whoever wrote an event could not take the answer")


def _resolve(future: "asyncio.Future[int]", result: int | LogError) -> None:
    if future.done():
        return
    if isinstance(result, LogError):
        future.set_exception(result)
    else:
        future.set_result(result)


def _stroke_before(time: float) -> float:
    return time - time % _STROKE


class _Lane:
    """The events of one partition that have not left yet."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.events: list[bytes] = []
        self.heard: list[Heard] = []
        self.size = 0
        self.number = 0
        self.left = 0.0
        self.crowded = False
        self.carried = False

    @property
    def is_full(self) -> bool:
        return len(self.events) >= MAX_EVENTS or self.size >= MAX_BYTES

    def take(self) -> tuple[list[bytes], list[Heard]]:
        """The next frame: as many events as it may hold, at least one."""
        count = min(len(self.events), MAX_EVENTS)
        size = self.size if count == len(self.events) else sum(map(len, self.events[:count]))
        while size > MAX_BYTES and count > 1:
            count -= 1
            size -= len(self.events[count])
        events, heard = self.events[:count], self.heard[:count]
        del self.events[:count], self.heard[:count]
        self.size -= size
        return events, heard
