"""How the log stands to the read models: whether it can be folded on from their positions, and whether all of it is."""

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.log_identity import (
    REBUILD_ADVICE,
    KnownStream,
    LogTrimmed,
    check_against_read_models,
)
from waterclock.core.jetstream.messages import StreamState, last_message, stream_state
from waterclock.projector.read.positions import STREAMS, Positions, StreamEnd, subject_of


async def check_log(connection: Connection, known: list[KnownStream], positions: Positions) -> None:
    """Raises WrongLog unless this is the log that the read models were made from, and it still has what follows."""
    for stream, state in (await check_against_read_models(connection, known)).items():
        await _check_trimmed(connection, stream, state, positions)


async def _check_trimmed(
    connection: Connection, stream: str, state: StreamState, positions: Positions
) -> None:
    """A position behind the log's beginning is harmless if nothing of its partition has come since."""
    for partition in positions.partitions:
        position = positions.of(stream, partition)
        if position == 0 or position + 1 >= state.first_seq:
            continue
        if await last_sequence(connection, stream, partition) > position:
            raise LogTrimmed(
                f"stream {stream} begins at sequence {state.first_seq}, but partition {partition} is folded in "
                f"only up to {position}: what lay between has left the log, and is lost to the read models. "
                f"{REBUILD_ADVICE}"
            )


async def ends_if_caught_up(
    connection: Connection, positions: Positions, known: list[StreamEnd]
) -> list[StreamEnd]:
    """Where the streams end, if everything of our partitions up to there is folded in; else nothing.

    Other messages than ours make sequences go on (leases are taken, other partitions write). Without following them, a
    quiet partition would look as if the log had been trimmed behind its back. `known`: the ends that were found last.
    """
    ends = [StreamEnd(stream, (await stream_state(connection, stream)).last_seq) for stream in STREAMS]
    if ends == known:
        return ends
    for stream in STREAMS:
        for partition in positions.partitions:
            if await last_sequence(connection, stream, partition) > positions.of(stream, partition):
                return []
    return ends


async def last_sequence(connection: Connection, stream: str, partition: int) -> int:
    last = await last_message(connection, stream, subject_of(stream, partition))
    return 0 if last is None else last.sequence
