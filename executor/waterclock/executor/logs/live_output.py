"""Answers what a running attempt has said until now, for those who start to listen in the middle."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.executor.logs.output import Outputs
from waterclock.proto import names

_ROOM_FOR_HEADERS = 1024


@asynccontextmanager
async def telling(connection: Connection, outputs: Outputs, executor_id: str) -> AsyncIterator[None]:
    """Silent about runs that are not here, so that the asker looks elsewhere after a while."""
    say = Broadcast(connection)

    def asked(_subject: bytes, reply: bytes, _headers: bytes, run_id: bytes) -> None:
        said = outputs.so_far(run_id.decode(errors="replace"))
        if said is not None and reply:
            say(reply.decode(), said[: connection.nc.max_payload - _ROOM_FOR_HEADERS])

    end = await connection.nc.tap(names.tell_subject(executor_id), asked)
    try:
        yield
    finally:
        end()
