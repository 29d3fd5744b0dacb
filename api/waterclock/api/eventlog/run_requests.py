"""What users ask of runs, appended to `RUNS` for the partition's owner to act on."""

from collections.abc import Sequence

from waterclock.core.jetstream.publisher import Publisher
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Frame, RunEvent

_FRAME_EVENTS = 500


class RunRequests:
    """Not a `FrameWriter`: that one never gives up, and what nobody waits for any more must not happen later."""

    def __init__(self, publisher: Publisher, writer: str) -> None:
        self._publisher = publisher
        self._writer = writer

    async def append(self, partition: int, events: Sequence[RunEvent]) -> int:
        """Returns the sequence of the last frame, once the log has acknowledged it."""
        sequence = 0
        for start in range(0, len(events), _FRAME_EVENTS):
            frame = Frame(writer=self._writer, events=tuple(events[start : start + _FRAME_EVENTS]))
            sequence = await self._publisher.publish(names.runs_subject(partition), encode(frame))
        return sequence
