"""What users ask of runs, appended to `RUNS` for the partition's owner to act on."""

from collections.abc import Sequence

from waterclock.core.jetstream.publisher import Publisher
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Frame, RunEvent

_MOST = 500


class Requests:
    """Not a `FrameWriter`: that one never gives up, and what nobody waits for any more must not come true later."""

    def __init__(self, publisher: Publisher, writer: str) -> None:
        self._publisher = publisher
        self._writer = writer

    async def append(self, partition: int, events: Sequence[RunEvent]) -> int:
        """Returns the sequence of the last frame, once the log has acknowledged it."""
        sequence = 0
        for start in range(0, len(events), _MOST):
            frame = Frame(writer=self._writer, events=tuple(events[start : start + _MOST]))
            sequence = await self._publisher.publish(names.runs_subject(partition), encode(frame))
        return sequence
