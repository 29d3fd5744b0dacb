"""One stream, read ahead and decoded, up to a limit: while nobody takes, nothing more is read."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.consumers import Delivery
from waterclock.core.jetstream.pull import Pull
from waterclock.projector.read.messages import JobsMessage, RunsMessage

_AHEAD = 40_000
"""Events decoded and not taken."""
_ON_THE_WAY = 256
"""Messages asked for and not decoded; each may be a frame of hundreds of events."""

Message = TypeVar("Message", JobsMessage, RunsMessage)


class Tap(Generic[Message]):
    def __init__(self, decode: Callable[[Delivery], Message], arrived: asyncio.Event) -> None:
        """`arrived` is set whenever there is more to take, and when reading has failed."""
        self._decode: Callable[[Delivery], Message] = decode
        self._arrived = arrived
        self._messages: deque[Message] = deque()
        self._taken = asyncio.Event()
        self._failure: BaseException | None = None
        self.events = 0
        """How many can be taken."""

    @asynccontextmanager
    async def reading(
        self, connection: Connection, stream: str, subjects: Sequence[str], after_sequence: int
    ) -> AsyncIterator[None]:
        source = Pull.ordered(connection, stream, subjects, after_sequence=after_sequence, batch=_ON_THE_WAY)
        async with source as pull:
            reader = asyncio.create_task(self._read(pull))
            try:
                yield
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    def first(self) -> Message | None:
        if self._failure is not None:
            raise self._failure
        return self._messages[0] if self._messages else None

    def take(self) -> Message:
        message = self._messages.popleft()
        self.events -= len(message.events)
        self._taken.set()
        return message

    async def _read(self, pull: Pull) -> None:
        try:
            while True:
                for delivery in await pull.next():
                    message = self._decode(delivery)
                    self._messages.append(message)
                    self.events += len(message.events)
                self._arrived.set()
                while self.events > _AHEAD:
                    self._taken.clear()
                    await self._taken.wait()
        except Exception as error:
            self._failure = error
            self._arrived.set()
