"""How far each partition of each stream is folded in."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from waterclock.proto import names
from waterclock.proto.events import Instant

STREAMS = (names.JOBS, names.RUNS)


def subject_of(stream: str, partition: int) -> str:
    """What one partition has in a stream."""
    return names.jobs_of_partition(partition) if stream == names.JOBS else names.runs_subject(partition)


class StreamEnd(Struct, frozen=True):
    """The last message of a stream in a batch."""

    stream: str
    sequence: int
    stored_at: Instant | None = None


class PositionMove(Struct, frozen=True, kw_only=True, gc=False):
    """One partition of one stream, from where it was to where the batch ends."""

    stream: str
    partition: int
    expected: int
    position: int
    event_time: Instant | None = None


class Positions:
    """Of the partitions one projector folds. A stream is read in order for all of them together, so they all
    stand at the last message folded, whichever of them it was for."""

    def __init__(self, at: dict[tuple[str, int], int]) -> None:
        self._at = at
        self.partitions: Sequence[int] = sorted({partition for _, partition in at})

    def of(self, stream: str, partition: int) -> int:
        return self._at[stream, partition]

    def start(self, stream: str) -> int:
        """Where to begin reading for all of them."""
        return min((self._at[stream, partition] for partition in self.partitions), default=0)

    def moves_to(self, ends: Iterable[StreamEnd]) -> list[PositionMove]:
        """One for every partition and stream, also where nothing was read: who folds a partition holds it whole."""
        found = {end.stream: end for end in ends}
        moves = []
        for (stream, partition), at in self._at.items():
            end = found.get(stream)
            moves.append(
                PositionMove(
                    stream=stream,
                    partition=partition,
                    expected=at,
                    position=at if end is None else max(at, end.sequence),
                    event_time=None if end is None else end.stored_at,
                )
            )
        return moves

    def apply(self, moves: Iterable[PositionMove]) -> None:
        for move in moves:
            self._at[move.stream, move.partition] = move.position
