"""A wire between client and server that a test can mute or cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Relay:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._userinfo = parts.netloc.rpartition("@")[0]
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.muted = False
        """Drop what the server says: requests arrive, answers do not."""
        self.swallowed = asyncio.Event()

    @property
    def url(self) -> str:
        return f"nats://{self._userinfo}@127.0.0.1:{self.port}"

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer, mutable=False))
                group.create_task(self._pump(far_reader, writer, mutable=True))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, mutable: bool
    ) -> None:
        try:
            while data := await reader.read(65536):
                if mutable and self.muted:
                    self.swallowed.set()
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()


@asynccontextmanager
async def relay(url: str) -> AsyncIterator[Relay]:
    wire = Relay(url)
    server = await asyncio.start_server(wire._serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        wire.cut()
