"""Where replies arrive: one subscription, one future per question, all failed at once when the server goes."""

import asyncio
from itertools import count

from waterclock.core.jetstream.wire import Disconnected, WireClient

Reply = tuple[bytes, bytes]
"""Header block and payload."""


class Inbox:
    def __init__(self, nc: WireClient) -> None:
        self._nc = nc
        self._prefix = ""
        self._tokens = count(1)
        self._waiting: dict[bytes, asyncio.Future[Reply]] = {}

    async def open(self) -> None:
        self._prefix = self._nc.new_inbox() + "."
        await self._nc.tap(self._prefix + "*", self._receive)

    def expect(self) -> tuple[str, asyncio.Future[Reply]]:
        """A fresh reply subject and the future of what arrives there; cancel the future to forget it."""
        subject = f"{self._prefix}{next(self._tokens)}"
        key = subject.encode()
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        future.add_done_callback(lambda _: self._waiting.pop(key, None))
        return subject, future

    def disconnected(self) -> None:
        """No reply will come to what was asked on the old socket."""
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(Disconnected())

    def _receive(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        future = self._waiting.get(subject)
        if future is not None and not future.done():
            future.set_result((header, payload))
