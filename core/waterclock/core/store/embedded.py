"""The store on JetStream itself: nothing else to install."""

from collections.abc import AsyncIterator

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, NotFound
from waterclock.core.jetstream.objects import Objects
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.store.store import Missing, StoreError


class EmbeddedStore:
    def __init__(self, connection: Connection, publisher: Publisher, bucket: str) -> None:
        self._objects = Objects(connection, publisher, bucket)

    async def put(self, name: str, content: AsyncIterator[bytes]) -> int:
        try:
            info = await self._objects.put(name, content)
        except LogError as error:
            raise StoreError(f"cannot keep {name}: {error}") from error
        return info.size

    async def get(self, name: str) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._objects.get(name):
                yield chunk
        except NotFound as error:
            raise Missing(name) from error
        except LogError as error:
            raise StoreError(f"cannot read {name}: {error}") from error

    async def size(self, name: str) -> int | None:
        try:
            return await self._objects.size(name)
        except LogError as error:
            raise StoreError(f"cannot look up {name}: {error}") from error

    async def delete(self, name: str) -> None:
        try:
            await self._objects.delete(name)
        except LogError as error:
            raise StoreError(f"cannot delete {name}: {error}") from error
