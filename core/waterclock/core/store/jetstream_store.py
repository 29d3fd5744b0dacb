"""The store on JetStream itself: nothing else to install."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, NotFound
from waterclock.core.jetstream.objects import CHUNK, Objects
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.store.batching import Gathering
from waterclock.core.store.store import Missing, Stored, StoreError
from waterclock.proto import names


class EmbeddedStore:
    def __init__(self, connection: Connection, publisher: Publisher, bucket: str) -> None:
        # Old logs leave by age; so executors need no right to purge what others have written.
        self._objects = Objects(connection, publisher, bucket, tidy=bucket != names.LOGS)
        self._small = Gathering(self._objects.put_small) if bucket == names.LOGS else None
        """Logs are many and short, and a sync to disk for each would be what limits the executor."""

    async def put(self, name: str, content: AsyncIterator[bytes]) -> int:
        with _said(f"cannot keep {name}"):
            if self._small is None:
                return (await self._objects.put(name, content)).size
            start = await _beginning(content)
            if len(start) > CHUNK:
                return (await self._objects.put(name, _chained(start, content))).size
            await self._small.put(name, start)
            return len(start)

    async def get(self, name: str) -> AsyncIterator[bytes]:
        with _said(f"cannot read {name}"):
            try:
                async for chunk in self._objects.get(name):
                    yield chunk
            except NotFound as error:
                raise Missing(name) from error

    async def size(self, name: str) -> int | None:
        with _said(f"cannot look up {name}"):
            return await self._objects.size(name)

    async def delete(self, name: str) -> None:
        with _said(f"cannot delete {name}"):
            await self._objects.delete(name)

    async def list(self, prefix: str = "") -> AsyncIterator[Stored]:
        with _said("cannot list"):
            for info in await self._objects.list():
                if info.name.startswith(prefix):
                    yield Stored(name=info.name, size=info.size)


async def _beginning(content: AsyncIterator[bytes]) -> bytes:
    """All of it if it fits into a chunk, else a bit more than a chunk."""
    buffer = bytearray()
    async for piece in content:
        buffer += piece
        if len(buffer) > CHUNK:
            break
    return bytes(buffer)


async def _chained(start: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield start
    async for piece in rest:
        yield piece


@contextmanager
def _said(what: str) -> Iterator[None]:
    try:
        yield
    except LogError as error:
        raise StoreError(f"{what}: {error}") from error
