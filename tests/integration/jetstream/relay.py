"""A wire between client and server that a test can mute, stall or cut."""

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
        self._gates: set[asyncio.Event] = set()
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

    def stall(self) -> None:
        """Read no more from those connected now; who connects later is served."""
        for gate in self._gates:
            gate.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        gate = asyncio.Event()
        gate.set()
        pair = {writer, far_writer}
        self._gates.add(gate)
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(reader, far_writer, gate))
                group.create_task(self._answer(far_reader, writer))
        finally:
            self._gates.discard(gate)
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _ask(
        self, client: asyncio.StreamReader, server: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        try:
            while await gate.wait() and (data := await client.read(65536)):
                server.write(data)
                await server.drain()
        except OSError:
            pass
        server.transport.abort()

    async def _answer(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            while data := await server.read(65536):
                if self.muted:
                    self.swallowed.set()
                    continue
                client.write(data)
                await client.drain()
        except OSError:
            pass
        client.transport.abort()


@asynccontextmanager
async def relay(url: str) -> AsyncIterator[Relay]:
    wire = Relay(url)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        wire.cut()
