"""A TCP proxy in this process whose network can be made bad."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waterclock.core.runtime.ports import LOOPBACK

_CHUNK = 256 * 1024


class Proxy:
    """Listens on `port` and passes on to `target`, as well as its network lets it."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._latency = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @classmethod
    @asynccontextmanager
    async def listening(cls, target: int) -> AsyncIterator["Proxy"]:
        proxy = cls(target)
        server = await asyncio.start_server(proxy._serve, LOOPBACK, 0, limit=_CHUNK)
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            proxy.cut()
            for task in list(proxy._pipes):
                task.cancel()
            await asyncio.gather(*proxy._pipes, return_exceptions=True)

    def slow(self, seconds: float) -> None:
        """Every byte arrives this much later, in both directions."""
        self._latency = seconds

    def silent(self) -> None:
        """Half-open: connections stay, new ones are taken, and no byte passes any more."""
        self._open.clear()

    def cut(self) -> None:
        """All connections are lost at once; new ones work."""
        for writer in list(self._writers):
            writer.transport.abort()

    def refuse(self) -> None:
        self._refusing = True
        self.cut()

    def heal(self) -> None:
        """What was swallowed stays lost: connections from before are cut, as a router that forgot them would."""
        was_silent = not self._open.is_set()
        self._latency = 0.0
        self._refusing = False
        if was_silent:
            self.cut()
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._refusing:
                return
            there, back = await asyncio.open_connection(LOOPBACK, self._target, limit=_CHUNK)
        except OSError:
            return
        finally:
            if self._refusing:
                writer.transport.abort()
        self._writers.add(back)
        pipes = [
            asyncio.ensure_future(self._pipe(reader, back)),
            asyncio.ensure_future(self._pipe(there, writer)),
        ]
        self._pipes.update(pipes)
        try:
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pipe in pipes:
                pipe.cancel()
            self._pipes.difference_update(pipes)
            for each in (writer, back):
                self._writers.discard(each)
                each.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                arrives, data = await line.get()
                if (wait := arrives - loop.time()) > 0:
                    await asyncio.sleep(wait)
                await self._open.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()

        delivering = asyncio.ensure_future(deliver())
        try:
            while data := await reader.read(_CHUNK):
                line.put_nowait((loop.time() + self._latency, data))
            line.put_nowait((loop.time() + self._latency, b""))
            await delivering
        except OSError:
            pass
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
