"""Is this still the log that we know? Every component asks, and refuses to go on with another one.

JetStream can lose the end of a stream without an error: a flipped bit took `last_seq` back, and the health check
said ok. Then sequences are given out twice, and to go on would mix two histories. So what is remembered of a stream
(`KnownStream`) is compared with what the server says of it now (`compare`):

- every process remembers it while it lives, and asks every four seconds (`LogWatch`);
- Postgres remembers it for all the rest: projector and api compare when they begin (`check_against_read_models`);
- a partition's snapshot remembers how far it had read: the scheduler compares when it takes the partition over.

WrongLog
├── LogReplaced   the stream was deleted, or deleted and created again
├── LogWentBack   the stream ends before what was already read from it
├── LogTrimmed    the stream begins after what was already folded (the projector finds this)
└── LogHalted     the projector found one of these, and said in the control bucket that nobody may go on
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial

from msgspec import Struct

from waterclock.core.domain.instants import datetime_of, instant_of
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, LogUnavailable, NotFound
from waterclock.core.jetstream.messages import StreamState, stream_state
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.clock import adjust
from waterclock.proto import names
from waterclock.proto.events import Instant

REBUILD_ADVICE = (
    "If the log as it is now is the one to go on with, run `waterclock projector rebuild`: it makes the read "
    "models anew from it, and keeps the history that it no longer tells."
)

_LEADER_CATCHES_UP = 3.0
_ASK_AGAIN = 0.2
_WATCH_EVERY = 4.0
"""Only an operator can exchange the log under a connection: after a reconnect it is looked at once."""

_log = logging.getLogger(__name__)


class WrongLog(LogError):
    """The log lost messages, or is another one. The message says what somebody has to do about it."""


class LogReplaced(WrongLog):
    pass


class LogWentBack(WrongLog):
    pass


class LogTrimmed(WrongLog):
    pass


class LogHalted(WrongLog):
    pass


class KnownStream(Struct, frozen=True, kw_only=True):
    """What is remembered of a stream. A snapshot knows only how far it had read, not when the stream was created."""

    stream: str
    last_sequence: int
    created: Instant | None = None


def compare(known: KnownStream, state: StreamState) -> None:
    """Raise unless the stream can be the one that is known."""
    if known.created is not None and instant_of(state.created) != known.created:
        raise LogReplaced(
            f"stream {known.stream} was created {_shown(state.created)}, but the one known here was created "
            f"{_shown(datetime_of(known.created))}: it has been deleted and made anew. If this is the wrong NATS "
            "server or data directory, correct that."
        )
    if state.last_seq < known.last_sequence:
        raise LogWentBack(
            f"stream {known.stream} ends at sequence {state.last_seq}, but was once seen to reach "
            f"{known.last_sequence}: the log has lost its end. Stop everything and restore the NATS data from a "
            "backup or a replica."
        )


async def check_stream(
    read_state: Callable[[str], Awaitable[StreamState]], known: KnownStream
) -> StreamState:
    """Its state now; raises unless it can be the stream that is known.

    A new leader of a replicated stream may not know yet all that it has: it is asked again for a while.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LEADER_CATCHES_UP
    while True:
        state = await read_state(known.stream)
        try:
            compare(known, state)
            return state
        except LogWentBack:
            if not state.replicated or loop.time() > deadline:
                raise
        await asyncio.sleep(_ASK_AGAIN)


async def check_against_read_models(
    connection: Connection, known: Iterable[KnownStream]
) -> dict[str, StreamState]:
    """The state of each stream that the read models were made from; raises unless all are still the same."""
    try:
        return {
            stream.stream: await check_stream(partial(stream_state, connection), stream) for stream in known
        }
    except WrongLog as error:
        raise type(error)(f"{error} {REBUILD_ADVICE}") from error


class LogWatch:
    """Asks every four seconds whether `RUNS` is the stream that this process has worked on, and what time the log has.

    `heeds_halt`: not for the projector, which calls the halt and judges anew every time it begins.
    """

    def __init__(self, connection: Connection, *, heeds_halt: bool = True) -> None:
        self._connection = connection
        self._heeds_halt = heeds_halt
        self._control = Bucket(connection, Publisher(connection), names.CONTROL)
        self._known: KnownStream | None = None

    async def run(self) -> None:
        """For ever, unless the log is wrong. At once when the server was away: it may have come back with another."""
        back = asyncio.Event()
        forget = self._connection.on_reconnect(back.set)
        try:
            while True:
                back.clear()
                try:
                    await self.check()
                except LogUnavailable as error:
                    _log.debug("the log is away", extra={"error": str(error)})
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WATCH_EVERY):
                        await back.wait()
        finally:
            forget()

    async def check(self) -> None:
        """Raises WrongLog."""
        known = self._known or KnownStream(stream=names.RUNS, last_sequence=0)
        try:
            state = await check_stream(self._read_state, known)
        except NotFound:
            if self._known is None:
                return  # the streams are not made yet
            raise LogReplaced(f"stream {names.RUNS} has been deleted") from None
        self._known = KnownStream(
            stream=names.RUNS, created=instant_of(state.created), last_sequence=state.last_seq
        )
        if self._heeds_halt and (halted := await self._control.get(names.HALT_KEY)) is not None:
            raise LogHalted(halted.value.decode())

    async def _read_state(self, stream: str) -> StreamState:
        began = time.monotonic()
        state = await stream_state(self._connection, stream)
        if state.server_time is not None:
            adjust(instant_of(state.server_time), int((time.monotonic() - began) * 1e6))
        return state


async def halt(control: Bucket, reason: str) -> None:
    """Tell every component that it must not go on with this log."""
    await control.put(names.HALT_KEY, reason.encode())


async def lift_halt(control: Bucket) -> None:
    """The log is good."""
    if await control.get(names.HALT_KEY) is not None:
        await control.delete(names.HALT_KEY)


def _shown(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
