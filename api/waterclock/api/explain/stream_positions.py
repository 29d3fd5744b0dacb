"""Where in a stream a moment lies."""

from datetime import datetime

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.stream_reader import next_message, stream_state


async def sequence_before(connection: Connection, stream: str, subject: str, moment: datetime) -> int:
    """The highest sequence such that every later message on the subject was stored at or after the moment.

    Found by halving, since messages are stored in the order of time.
    """
    state = await stream_state(connection, stream)
    low, high = max(0, state.first_seq - 1), state.last_seq
    while low < high:
        middle = (low + high) // 2
        found = await next_message(connection, stream, subject, middle)
        if found is None or found.timestamp >= moment:
            high = middle
        else:
            low = found.sequence
    return low
