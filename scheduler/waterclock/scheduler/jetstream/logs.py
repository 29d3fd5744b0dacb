"""A partition's part of `RUNS` and `JOBS`; and its decisions, appended under the lease: a stale owner is refused."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, Duplicate
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.log_identity import KnownStream, check_stream
from waterclock.core.jetstream.messages import last_message, next_message, stream_state
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Cursor, Frame, RunEvent
from waterclock.scheduler.heartbeat import Heartbeat
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.ports import LeaseLost

_FRAME_EVENTS = 500
_SILENCE = 0.5
"""After so many seconds without a message the log is asked whether there is any: the last ones may have left it."""
_PULL_BYTES = 512 * 1024
"""Of each reader. There are two for each partition."""


class StreamLog:
    """`subject`: what the stream has for this partition."""

    def __init__(self, connection: Connection, stream: str, subject: str) -> None:
        self._connection = connection
        self._stream = stream
        self._subject = subject

    async def check_reaches(self, sequence: int) -> None:
        """Refuse to decide anything on a log that has lost its end: ids and tokens would be given out twice."""
        known = KnownStream(stream=self._stream, last_sequence=sequence)
        read_state = partial(stream_state, self._connection)
        await until_known(f"the end of {self._stream}", partial(check_stream, read_state, known))

    async def end(self) -> int:
        read_last = partial(last_message, self._connection, self._stream, self._subject)
        last = await until_known(f"the end of {self._subject}", read_last)
        return 0 if last is None else last.sequence

    async def read(self, after: int, through: int) -> AsyncIterator[Sequence[Delivery]]:
        if after >= through:
            return
        async with self.follow(after) as pull:
            while pull.sequence < through:
                arrived = await pull.next(timeout=_SILENCE)
                if not arrived and not await self._has_any(pull.sequence, through):
                    return
                yield [delivery for delivery in arrived if delivery.sequence <= through]

    async def _has_any(self, after: int, through: int) -> bool:
        """By the leader: a consumer may be with a server that does not have yet what is there."""
        read_next = partial(next_message, self._connection, self._stream, self._subject, after)
        found = await until_known(f"the end of {self._subject}", read_next)
        return found is not None and found.sequence <= through

    @asynccontextmanager
    async def follow(self, after: int) -> AsyncIterator[Pull]:
        async with AsyncExitStack() as stack:
            source = partial(
                Pull.ordered, self._connection, self._stream, [self._subject], max_bytes=_PULL_BYTES
            )
            yield await until_known(
                self._subject, lambda: stack.enter_async_context(source(after_sequence=after))
            )


class LeasedLog:
    """Decisions, appended to `RUNS` for as long as the lease is ours.

    `publisher`: one that repeats until the outcome is known. So every append is in the log once, or refused because the
    partition has another owner.
    """

    def __init__(
        self,
        publisher: Publisher,
        partition: int,
        lease: Lease,
        heartbeat: Heartbeat,
        *,
        instance: str,
        partitions: int,
    ) -> None:
        self.writer = f"{instance}/{lease.token}"
        self.last = 0
        self._publisher = publisher
        self._partition = partition
        self._subject = names.runs_subject(partition)
        self._numbers = count(1)
        self._lease = lease
        self._heartbeat = heartbeat
        self._doubts = heartbeat.doubts
        self._partitions = partitions

    @property
    def is_certain(self) -> bool:
        # In this order: the thread of the heartbeat counts a doubt before it takes note of the beat that raised it.
        return self._heartbeat.is_fresh and self._heartbeat.doubts == self._doubts

    async def keep_lease(self) -> None:
        """Nothing while our heartbeats are fresh. Else we may have been taken for dead: that is no reason to give up,
        but one to ask. No append is under way meanwhile, so it is also when the lease is written again."""
        try:
            if not self.is_certain:
                doubts = self._heartbeat.doubts
                await until_known(f"the lease of partition {self._partition}", self._lease.confirm)
                self._doubts = doubts
            await self._lease.keep_stored()
        except Conflict as error:
            raise LeaseLost(f"partition {self._partition} has another owner: {error}") from error

    async def append(self, events: Sequence[RunEvent], cursor: Cursor) -> None:
        """One frame, or several in an atomic batch."""
        frames = frames_of(self.writer, events, cursor, size=_FRAME_EVENTS)
        try:
            if len(frames) == 1:
                self.last = await self._publisher.publish(
                    self._subject, encode(frames[0]), expect=self._lease.fence(), after=self.last
                )
            else:
                self.last = await self._append_all(frames)
        except Conflict as error:
            raise LeaseLost(f"partition {self._partition} has another owner: {error}") from error

    async def _append_all(self, frames: Sequence[Frame]) -> int:
        """A server that is killed while it writes a batch may keep the beginning of it. Each frame has an id, so that
        the batch is refused when it is repeated; then the frames go one by one, and none is stored twice."""
        messages = [
            Message(
                subject=self._subject,
                data=encode(frame),
                headers={"Nats-Msg-Id": f"{self.writer}/{next(self._numbers)}"},
            )
            for frame in frames
        ]
        try:
            return await self._publisher.publish_batch(messages, expect=self._lease.fence(), after=self.last)
        except Duplicate:
            last = 0
            for message in messages:
                last = await self._publisher.publish(
                    message.subject,
                    message.data,
                    headers=message.headers,
                    expect=self._lease.fence(),
                    after=self.last,
                    may_be_stored=True,
                )
            return last

    async def send(self, notices: Sequence[Notice]) -> None:
        """To other partitions, or to this one as if it were another: the log is where they meet."""
        by_partition: dict[int, list[RunEvent]] = {}
        for notice in notices:
            partition = names.partition_of(notice.to, self._partitions)
            by_partition.setdefault(partition, []).append(notice.event)
        for partition, events in by_partition.items():
            for frame in frames_of(f"{self.writer}/post", events, None, size=_FRAME_EVENTS):
                await self._publisher.publish(names.runs_subject(partition), encode(frame))


def frames_of(writer: str, events: Sequence[RunEvent], cursor: Cursor | None, *, size: int) -> list[Frame]:
    """The cursor is on the last frame, so all must get there. Without events: a frame with only the cursor."""
    chunks = [events[start : start + size] for start in range(0, len(events), size)] or [()]
    return [
        Frame(writer=writer, events=tuple(chunk), cursor=cursor if number == len(chunks) else None)
        for number, chunk in enumerate(chunks, 1)
    ]
