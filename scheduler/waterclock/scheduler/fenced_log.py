"""A partition's decisions, appended to `RUNS` under its lease: the broker refuses a stale owner."""

from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Cursor, Frame, RunEvent

_FRAME_EVENTS = 500
_BATCH_FRAMES = 100


class LeaseLost(Exception):
    """Somebody else owns the partition now, or may."""


class FencedLog:
    def __init__(self, publisher: Publisher, partition: int, lease: Lease, writer: str) -> None:
        self.writer = writer
        self.last = 0
        """The sequence of the last frame that was appended here."""
        self._publisher = publisher
        self._partition = partition
        self._lease = lease

    async def append(self, events: list[RunEvent], cursor: Cursor) -> None:
        """One frame, or several in atomic batches.

        The cursor is on the last frame: what stands before it is decided again after a crash, and found to be there.
        """
        chunks = [events[start : start + _FRAME_EVENTS] for start in range(0, len(events), _FRAME_EVENTS)]
        frames = [
            Frame(writer=self.writer, events=tuple(chunk), cursor=cursor if number == len(chunks) else None)
            for number, chunk in enumerate(chunks, 1)
        ]
        try:
            for start in range(0, len(frames), _BATCH_FRAMES):
                self.last = await self._publish(frames[start : start + _BATCH_FRAMES])
        except Conflict as error:
            raise LeaseLost(f"partition {self._partition} has another owner: {error}") from error

    async def _publish(self, frames: list[Frame]) -> int:
        subject = names.runs_subject(self._partition)
        async with self._lease.fenced() as expect:
            if len(frames) == 1:
                return await self._publisher.publish(subject, encode(frames[0]), expect=expect)
            messages = [Message(subject=subject, data=encode(frame)) for frame in frames]
            return await self._publisher.publish_batch(messages, expect=expect)
