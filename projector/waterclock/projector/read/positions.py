"""How far each partition of each stream is folded in."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from waterclock.projector.write.store import Move
from waterclock.proto import names
from waterclock.proto.events import Instant

STREAMS = (names.JOBS, names.RUNS)


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

    def moves(self, ends: Iterable["End"]) -> list[Move]:
        """One for every partition and stream, also where nothing was read: who folds a partition holds it whole."""
        found = {end.stream: end for end in ends}
        moves = []
        for (stream, partition), at in self._at.items():
            end = found.get(stream)
            moves.append(
                Move(
                    stream=stream,
                    partition=partition,
                    expected=at,
                    position=at if end is None else max(at, end.sequence),
                    event_time=None if end is None else end.stored_at,
                )
            )
        return moves

    def moved(self, moves: Iterable[Move]) -> None:
        for move in moves:
            self._at[move.stream, move.partition] = move.position


class End(Struct, frozen=True):
    """The last message of a stream in a batch."""

    stream: str
    sequence: int
    stored_at: Instant | None = None
