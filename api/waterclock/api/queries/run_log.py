"""`runs.log`: a run's output, followed to its end if asked.

What attempts that ended have put out is kept in the store. The current attempt's executor has the rest, and sends it
on as it comes; the events of the run tell when an attempt ends and another begins.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct, structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Invalid, NotFound
from waterclock.api.queries.changes import status_after
from waterclock.api.queries.output import AttemptOutput, attempt_output, read_output, stored_output
from waterclock.api.queries.runs import find
from waterclock.api.registry import streams
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.runtime.quarantine import read_frame
from waterclock.proto import methods, names
from waterclock.proto.answers import LogChunk, Run
from waterclock.proto.events import Outcome, RunCancelled, RunEvent, RunLost, RunQueued
from waterclock.proto.queries import LogQuery
from waterclock.proto.verdicts import TERMINAL

_CHUNK_BYTES = 256 * 1024
_RUN = re.compile(r"[\w=@~+:-]{1,1000}", re.ASCII)


@streams(methods.RUNS_LOG)
async def log(app: Application, request: LogQuery, caller: Caller) -> AsyncIterator[LogChunk]:
    if request.follow and request.attempt is not None:
        raise Invalid.field("attempt", "all attempts are followed; leave out attempt, or follow")
    if request.follow:
        chunks = _follow(app, request, caller)
    else:
        chunks = _until_now(app, await find(app, request.run_id, caller), request)
    async for chunk in chunks:
        yield chunk


async def _until_now(app: Application, run: Run, request: LogQuery) -> AsyncIterator[LogChunk]:
    """The output of all attempts so far, or of one of them, from where it is wanted on."""
    attempts = range(1, run.attempt_number + 1) if request.attempt is None else (request.attempt,)
    outputs = [await attempt_output(app, run, attempt) for attempt in attempts]
    size = sum(output.size for output in outputs)
    chunks = LogChunks(_start(request, size))
    said: int | None = size
    for output in outputs:
        async for chunk in _chunks_of(app, output, chunks):
            yield structs.replace(chunk, size=said)
            said = None
        chunks.next_attempt(output.size)
    yield structs.replace(chunks.end(last=run.status in TERMINAL), size=said)


def _start(request: LogQuery, size: int) -> int:
    return request.offset if request.tail is None else max(request.offset, size - request.tail, 0)


async def _chunks_of(app: Application, output: AttemptOutput, chunks: "LogChunks") -> AsyncIterator[LogChunk]:
    """What the reader lacks of an attempt, which is the current one."""
    place = chunks.lacks_from
    if place >= output.size:
        return
    async for data in read_output(app, output, place):
        for chunk in chunks.take(place, data):
            yield chunk
        place += len(data)


async def _follow(app: Application, request: LogQuery, caller: Caller) -> AsyncIterator[LogChunk]:
    run_id = request.run_id
    if not _RUN.fullmatch(run_id):  # it is about to be part of a subject
        raise NotFound.because(f"there is no run {run_id[:100]}")
    deadline = (
        None if request.stay_seconds is None else asyncio.get_running_loop().time() + request.stay_seconds
    )
    feed = RunFeed()
    async with _follow_output(app, run_id, feed):
        position = (await stream_state(app.connection, names.RUNS)).last_seq
        run = await find(app, run_id, caller)
        over = (
            run.attempt_number
            if run.status in TERMINAL or run.status == "RETRYING"
            else run.attempt_number - 1
        )
        attempt = max(over + 1, 1)
        known = range(1, attempt + 1) if run.status == "RUNNING" else range(1, over + 1)
        outputs = [await attempt_output(app, run, each) for each in known]
        chunks = LogChunks(_start(request, sum(output.size for output in outputs)))
        for output in outputs:
            async for chunk in _chunks_of(app, output, chunks):
                yield chunk
            if output.attempt <= over:
                chunks.next_attempt(output.size)
        if run.status in TERMINAL:
            yield chunks.end(last=True)
            return
        async with follow_events(app, run_id, position, feed):
            while (item := await feed.next(deadline)) is not None:
                match item:
                    case Output():
                        if item.attempt == attempt:
                            for chunk in chunks.take(item.offset, item.data):
                                yield chunk
                    case RunQueued():
                        attempt = item.attempt
                    case Outcome() | RunCancelled() | RunLost() if item.attempt in (0, attempt):
                        output = await stored_output(app, run_id, attempt)
                        async for chunk in _chunks_of(app, output, chunks):
                            yield chunk
                        if status_after(item) in TERMINAL:
                            yield chunks.end(last=True)
                            return
                        chunks.next_attempt(output.size)


class Output(Struct, frozen=True):
    """Live output of one attempt. `offset` counts within the attempt."""

    attempt: int
    offset: int
    data: bytes


class RunFeed:
    """Output and events of a run in the order in which they arrive, from two sources to one reader.

    A source that fails hands its error over: the reader raises it, and whoever follows learns that nothing more comes.
    (The sources are not `supervised`: a stream's reader may be another task than the one that opened it.)
    """

    def __init__(self) -> None:
        self._items: asyncio.Queue[Output | RunEvent | Exception] = asyncio.Queue()

    def put(self, item: Output | RunEvent) -> None:
        self._items.put_nowait(item)

    def fail(self, error: Exception) -> None:
        self._items.put_nowait(error)

    async def next(self, deadline: float | None = None) -> Output | RunEvent | None:
        """The next item; None at the deadline."""
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(left):
                item = await self._items.get()
        except TimeoutError:
            return None
        if isinstance(item, Exception):
            raise item
        return item


@asynccontextmanager
async def _follow_output(app: Application, run_id: str, feed: RunFeed) -> AsyncIterator[None]:
    """Put what the run prints from now on into the feed."""

    def received(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        attempt, offset = subject.rsplit(b".", 2)[1:]
        feed.put(Output(int(attempt), int(offset), bytes(payload)))

    end = await app.connection.nc.tap(names.log_filter(run_id), received)
    try:
        yield
    finally:
        end()


@asynccontextmanager
async def follow_events(app: Application, run_id: str, after: int, feed: RunFeed) -> AsyncIterator[None]:
    """Put the events of the run after a sequence of `RUNS` into the feed."""
    subject = names.runs_subject(app.partition_of(run_id))
    async with Pull.ordered(app.connection, names.RUNS, [subject], after_sequence=after, batch=500) as pull:
        reading = asyncio.create_task(_read_events(pull, run_id, feed))
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _read_events(pull: Pull, run_id: str, feed: RunFeed) -> None:
    try:
        while True:
            for delivery in await pull.next():
                for event in read_frame(delivery).events:
                    if event.run_id == run_id:
                        feed.put(event)
    except Exception as error:
        feed.fail(error)


class LogChunks:
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
        return [self._chunk(new[i : i + _CHUNK_BYTES]) for i in range(0, len(new), _CHUNK_BYTES)]

    @property
    def lacks_from(self) -> int:
        """The byte of the current attempt from which on the reader has nothing."""
        return max(0, self._sent - self._base)

    def next_attempt(self, size: int) -> None:
        """The current attempt has ended with so many bytes of output."""
        self._base += size

    def end(self, *, last: bool) -> LogChunk:
        return LogChunk(offset=self._sent, next=self._sent, text="", last=last)

    def _chunk(self, data: bytes) -> LogChunk:
        offset, self._sent = self._sent, self._sent + len(data)
        try:
            return LogChunk(offset=offset, next=self._sent, text=data.decode())
        except UnicodeDecodeError:
            return LogChunk(offset=offset, next=self._sent, text=data.decode(errors="replace"), data=data)
