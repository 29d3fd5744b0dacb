"""Where replies arrive: one subscription, one future per question."""

import asyncio
from itertools import count

from waterclock.core.jetstream.nats_client import Disconnected, WireClient

Reply = tuple[bytes, bytes]
"""Header block and payload."""


class Inbox:
    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._prefix = ""
        self._numbers = count(1)
        self._waiting: dict[bytes, asyncio.Future[Reply]] = {}

    async def open(self) -> None:
        self._prefix = self._client.new_inbox() + "."
        await self._client.tap(self._prefix + "*", self._receive)

    def expect(self) -> tuple[str, asyncio.Future[Reply]]:
        """A fresh reply subject, and the future of what arrives there. `forget` it in the end."""
        subject = f"{self._prefix}{next(self._numbers)}"
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[subject.encode()] = future
        return subject, future

    def forget(self, subject: str) -> None:
        self._waiting.pop(subject.encode(), None)

    def disconnected(self) -> None:
        """What was asked through the old socket is not answered any more: say so now, not at the deadline."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Disconnected())
                future.exception()  # seen: whoever asked may have given up already

    def _receive(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        future = self._waiting.pop(subject, None)
        if future is not None and not future.done():
            future.set_result((header, payload))
