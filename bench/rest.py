"""A small HTTP client that costs next to nothing: on two cores a client takes its time from the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Rest:
    """One connection that is kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, token: str) -> AsyncIterator["Rest"]:
        place = urlsplit(url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        head = f"Host: {place.netloc}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        try:
            yield cls(reader, writer, head)
        finally:
            writer.close()

    async def post(self, path: str, body: bytes) -> int:
        """The status of the answer, once all of it has been read."""
        request = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(request.encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        await self._reader.readexactly(_length(head))
        return int(head.split(b" ", 2)[1])


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
