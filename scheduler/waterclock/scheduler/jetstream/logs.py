"""A partition's part of `RUNS` and `JOBS`; and its decisions, appended under the lease: a stale owner is refused."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.log_identity import KnownStream, check_stream
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Cursor, Frame, RunEvent
from waterclock.scheduler.ports import Feed, LeaseLost

_FRAME_EVENTS = 500
_BATCH_FRAMES = 100
_PULL_TIMEOUT = 5.0


class StreamLog:
    """`subject`: what the stream has for this partition."""

    def __init__(self, connection: Connection, stream: str, subject: str) -> None:
        self._connection = connection
        self._stream = stream
        self._subject = subject

    async def check_reaches(self, sequence: int) -> None:
        """Refuse to decide anything on a log that has lost its end: ids and tokens would be given out twice."""
        known = KnownStream(stream=self._stream, last_sequence=sequence)
        await check_stream(partial(stream_state, self._connection), known)

    async def end(self) -> int:
        last = await last_message(self._connection, self._stream, self._subject)
        return 0 if last is None else last.sequence

    async def read(self, after: int, through: int) -> AsyncIterator[Sequence[Delivery]]:
        if after >= through:
            return
        async with self._pull(after) as pull:
            while pull.sequence < through:
                arrived = await pull.next(timeout=_PULL_TIMEOUT)
                yield [delivery for delivery in arrived if delivery.sequence <= through]

    @asynccontextmanager
    async def follow(self, after: int) -> AsyncIterator[Feed]:
        async with self._pull(after) as pull:
            yield pull

    @asynccontextmanager
    async def _pull(self, after: int) -> AsyncIterator[Pull]:
        async with Pull.ordered(
            self._connection, self._stream, [self._subject], after_sequence=after
        ) as pull:
            yield pull


class LeasedLog:
    """Decisions, appended to `RUNS` for as long as the lease is ours."""

    def __init__(
        self, publisher: Publisher, partition: int, lease: Lease, *, instance: str, partitions: int
    ) -> None:
        self.writer = f"{instance}/{lease.token}"
        self.last = 0
        self._publisher = publisher
        self._partition = partition
        self._lease = lease
        self._partitions = partitions

    async def keep_lease(self) -> None:
        try:
            await self._lease.keep()
        except Conflict as error:
            raise LeaseLost(f"partition {self._partition} was not kept in time: {error}") from error

    async def append(self, events: Sequence[RunEvent], cursor: Cursor) -> None:
        """One frame, or several in atomic batches."""
        frames = frames_of(self.writer, events, cursor, size=_FRAME_EVENTS)
        try:
            for start in range(0, len(frames), _BATCH_FRAMES):
                self.last = await self._publish(frames[start : start + _BATCH_FRAMES])
        except Conflict as error:
            raise LeaseLost(f"partition {self._partition} has another owner: {error}") from error

    async def send(self, notices: Sequence[Notice]) -> None:
        """To other partitions, or to this one as if it were another: the log is where they meet."""
        by_partition: dict[int, list[RunEvent]] = {}
        for notice in notices:
            partition = names.partition_of(notice.to, self._partitions)
            by_partition.setdefault(partition, []).append(notice.event)
        for partition, events in by_partition.items():
            for frame in frames_of(f"{self.writer}/post", events, None, size=_FRAME_EVENTS):
                await self._publisher.publish(names.runs_subject(partition), encode(frame))

    async def _publish(self, frames: Sequence[Frame]) -> int:
        subject = names.runs_subject(self._partition)
        async with self._lease.fenced() as expect:
            if len(frames) == 1:
                return await self._publisher.publish(subject, encode(frames[0]), expect=expect)
            messages = [Message(subject=subject, data=encode(frame)) for frame in frames]
            return await self._publisher.publish_batch(messages, expect=expect)


def frames_of(writer: str, events: Sequence[RunEvent], cursor: Cursor | None, *, size: int) -> list[Frame]:
    """The cursor is on the last frame: what stands before it is decided again after a crash, and found to be there."""
    chunks = [events[start : start + size] for start in range(0, len(events), size)]
    return [
        Frame(writer=writer, events=tuple(chunk), cursor=cursor if number == len(chunks) else None)
        for number, chunk in enumerate(chunks, 1)
    ]
