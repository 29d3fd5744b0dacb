"""A run's output: what is kept of the attempts that ended, and what the current one says as it says it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from waterclock.api.application import Application
from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.jetstream.pull import Pull
from waterclock.core.store.store import Missing, log_name
from waterclock.proto import names
from waterclock.proto.answers import LogChunk, Run
from waterclock.proto.codec import decode_frame
from waterclock.proto.events import RunEvent

_PIECE = 256 * 1024
_TELL_SECONDS = 1.0


class Said(Struct, frozen=True):
    """Live output of one attempt. `offset` counts within the attempt."""

    attempt: int
    offset: int
    data: bytes


News = asyncio.Queue[Said | RunEvent]


async def kept(app: Application, run_id: str, attempt: int) -> bytes:
    """The whole output of an attempt that has ended; nothing if it said nothing."""
    try:
        return b"".join([piece async for piece in app.logs.get(log_name(run_id, attempt))])
    except Missing:
        return b""


async def so_far(app: Application, run: Run) -> bytes:
    """What a running attempt has said until now, from its executor; nothing if that does not answer."""
    if run.executor_id is None:
        return b""
    try:
        subject = names.tell_subject(run.executor_id)
        reply = await app.connection.request(subject, run.run_id.encode(), timeout=_TELL_SECONDS)
    except LogUnavailable:
        return b""
    return reply.data


@asynccontextmanager
async def listening(app: Application, run_id: str) -> AsyncIterator[News]:
    """What the run says from now on."""
    news: News = asyncio.Queue()

    def hear(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        attempt, offset = subject.rsplit(b".", 2)[1:]
        news.put_nowait(Said(int(attempt), int(offset), bytes(payload)))

    end = await app.connection.nc.tap(names.log_filter(run_id), hear)
    try:
        yield news
    finally:
        end()


@asynccontextmanager
async def and_events(app: Application, run_id: str, after: int, news: News) -> AsyncIterator[None]:
    """Puts what happens to the run among the news."""
    subject = names.runs_subject(app.partition_of(run_id))
    async with Pull.ordered(app.connection, names.RUNS, [subject], after_sequence=after, batch=500) as pull:

        async def read() -> None:
            while True:
                for delivery in await pull.next():
                    for event in decode_frame(delivery.data).events:
                        if event.run_id == run_id:
                            news.put_nowait(event)

        reading = asyncio.create_task(read())
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class Tape:
    """Turns output into chunks of one numbered text, leaving out what the reader already has."""

    def __init__(self, offset: int) -> None:
        self._sent = offset
        self._base = 0

    def take(self, offset: int, data: bytes) -> list[LogChunk]:
        """The new part of a piece that starts at `offset` of the current attempt; nothing if there is a gap."""
        start = self._base + offset
        if start > self._sent or start + len(data) <= self._sent:
            return []
        new = data[self._sent - start :]
        return [self._chunk(new[i : i + _PIECE]) for i in range(0, len(new), _PIECE)]

    def next_attempt(self, size: int) -> None:
        """The current attempt is over, and said so much."""
        self._base += size

    def end(self, *, last: bool) -> LogChunk:
        return LogChunk(offset=self._sent, next=self._sent, text="", last=last)

    def _chunk(self, data: bytes) -> LogChunk:
        offset, self._sent = self._sent, self._sent + len(data)
        try:
            return LogChunk(offset=offset, next=self._sent, text=data.decode())
        except UnicodeDecodeError:
            return LogChunk(offset=offset, next=self._sent, text=data.decode(errors="replace"), data=data)
