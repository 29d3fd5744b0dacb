"""Refuses to fold a log that is not the one the read models were made from.

JetStream can lose the end of a stream without a word: a flipped bit took `last_seq` back, and the health check
said ok. Then sequences are given out twice, and going on would mix two histories. So Postgres remembers when
each stream was created, and the highest sequence ever seen.
"""

import asyncio
from datetime import datetime

from msgspec import Struct

from waterclock.core.domain.instants import datetime_of, instant_of
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.log_identity import CATCHING_UP
from waterclock.core.jetstream.stream_reader import StreamState, last_message, stream_state
from waterclock.projector.write.positions import STREAMS, End, Positions
from waterclock.proto import names
from waterclock.proto.events import Instant

_AGAIN = 0.2
_REBUILD = (
    "If the log as it is now is the one to go on with, run `waterclock projector rebuild`: it makes the read "
    "models anew from it, and keeps the history that it no longer tells."
)


class LogRefused(Exception):
    """
    LogRefused
    ├── LogReplaced   the stream was deleted and created again
    ├── LogWentBack   the stream ends before what was already folded
    └── LogTrimmed    the stream begins after what was already folded
    """


class LogReplaced(LogRefused):
    pass


class LogWentBack(LogRefused):
    pass


class LogTrimmed(LogRefused):
    pass


class Seen(Struct, frozen=True, kw_only=True):
    """What is remembered of a stream."""

    stream: str
    created: Instant
    last_sequence: int


def compare(seen: Seen, state: StreamState) -> None:
    """Raise unless the stream can be the one that was seen."""
    if instant_of(state.created) != seen.created:
        raise LogReplaced(
            f"stream {seen.stream} was created {_shown(state.created)}, but the read models were made from one "
            f"created {_shown(datetime_of(seen.created))}. If this is the wrong NATS server or data directory, "
            f"correct that. {_REBUILD}"
        )
    if state.last_seq < seen.last_sequence:
        raise LogWentBack(
            f"stream {seen.stream} ends at sequence {state.last_seq}, but was once seen to reach "
            f"{seen.last_sequence}: the log has lost its end. Stop everything and restore the NATS data from a "
            f"backup or a replica. {_REBUILD}"
        )


async def check_log(connection: Connection, seen: list[Seen], positions: Positions) -> None:
    for remembered in seen:
        state = await unchanged(connection, remembered)
        await _check_trimmed(connection, remembered.stream, state, positions)


async def unchanged(connection: Connection, seen: Seen) -> StreamState:
    """Its state; raises unless it can be the one that was seen.

    A new leader of a replicated stream may not know yet all that it has: it is asked again for a while.
    """
    loop = asyncio.get_running_loop()
    patience = loop.time() + CATCHING_UP
    while True:
        state = await stream_state(connection, seen.stream)
        try:
            compare(seen, state)
            return state
        except LogWentBack:
            if not state.replicated or loop.time() > patience:
                raise
        await asyncio.sleep(_AGAIN)


async def _check_trimmed(
    connection: Connection, stream: str, state: StreamState, positions: Positions
) -> None:
    """A position behind the log's beginning is harmless if nothing of its partition has come since."""
    for partition in positions.partitions:
        position = positions.of(stream, partition)
        if position == 0 or position + 1 >= state.first_seq:
            continue
        if await last_of(connection, stream, partition) > position:
            raise LogTrimmed(
                f"stream {stream} begins at sequence {state.first_seq}, but partition {partition} is folded in "
                f"only up to {position}: what lay between has left the log, and is lost to the read models. "
                f"{_REBUILD}"
            )


async def caught_up(connection: Connection, positions: Positions) -> list[End]:
    """Where the streams end, if everything of our partitions up to there is folded in; else nothing.

    Other messages than ours make sequences go on (leases are renewed all the time). Without following them, a quiet
    partition would look as if the log had been trimmed behind its back.
    """
    ends = []
    for stream in STREAMS:
        state = await stream_state(connection, stream)
        for partition in positions.partitions:
            if await last_of(connection, stream, partition) > positions.of(stream, partition):
                return []
        ends.append(End(stream, state.last_seq))
    return ends


async def last_of(connection: Connection, stream: str, partition: int) -> int:
    subject = names.jobs_of_partition(partition) if stream == names.JOBS else names.runs_subject(partition)
    last = await last_message(connection, stream, subject)
    return 0 if last is None else last.sequence


def _shown(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
