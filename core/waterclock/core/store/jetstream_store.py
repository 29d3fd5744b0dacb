"""The store on JetStream itself: nothing else to install."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, NotFound
from waterclock.core.jetstream.objects import CHUNK, Objects
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.store.store import Missing, Stored, StoreError
from waterclock.proto import names

_MOST_OBJECTS = 400
_MOST_BYTES = 2 * 1024 * 1024

_PROBE = "probe"
"""The name of an object that need not exist."""

Batch = dict[str, tuple[bytes, "asyncio.Future[None]"]]
PutMany = Callable[[Mapping[str, bytes]], Awaitable[None]]


class JetStreamStore:
    def __init__(self, connection: Connection, publisher: Publisher, bucket: str) -> None:
        # Old logs leave by age; so executors need no right to purge what others have written.
        self._objects = Objects(connection, publisher, bucket, tidy=bucket != names.LOGS)
        self._small = Batching(self._objects.put_small) if bucket == names.LOGS else None
        """Logs are many and short, and a sync to disk for each would be what limits the executor."""

    async def put(self, name: str, content: AsyncIterator[bytes]) -> int:
        with _as_store_error(f"cannot keep {name}"):
            if self._small is None:
                return (await self._objects.put(name, content)).size
            start = await _beginning(content)
            if len(start) > CHUNK:
                return (await self._objects.put(name, _chained(start, content))).size
            await self._small.put(name, start)
            return len(start)

    async def get(self, name: str, start: int = 0) -> AsyncIterator[bytes]:
        with _as_store_error(f"cannot read {name}"):
            try:
                async for chunk in self._objects.get(name, start):
                    yield chunk
            except NotFound as error:
                raise Missing(name) from error

    async def size(self, name: str) -> int | None:
        with _as_store_error(f"cannot look up {name}"):
            return await self._objects.size(name)

    async def delete(self, name: str) -> None:
        with _as_store_error(f"cannot delete {name}"):
            await self._objects.delete(name)

    async def check(self) -> None:
        with _as_store_error("cannot be reached"):
            await self._objects.size(_PROBE)

    async def list(self, prefix: str = "") -> AsyncIterator[Stored]:
        with _as_store_error("cannot list"):
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
def _as_store_error(what: str) -> Iterator[None]:
    try:
        yield
    except LogError as error:
        raise StoreError(f"{what}: {error}") from error


class Batching:
    """Puts small objects that come at the same time together.

    One batch is in flight, and what comes meanwhile is the next one; a lone object does not wait.
    """

    def __init__(self, put_many: PutMany) -> None:
        self._put_many = put_many
        self._waiting: Batch = {}
        self._sender: asyncio.Task[None] | None = None

    async def put(self, name: str, content: bytes) -> None:
        while name in self._waiting:
            await asyncio.wait([self._waiting[name][1]])
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[name] = content, future
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        await future

    async def _send(self) -> None:
        try:
            while self._waiting:
                await self._deliver(self._next_batch())
        finally:
            self._sender = None

    def _next_batch(self) -> Batch:
        batch: Batch = {}
        size = 0
        for name, entry in self._waiting.items():
            size += len(entry[0])
            if batch and (size > _MOST_BYTES or len(batch) >= _MOST_OBJECTS):
                break
            batch[name] = entry
        for name in batch:
            del self._waiting[name]
        return batch

    async def _deliver(self, batch: Batch) -> None:
        error: Exception | None = None
        try:
            await self._put_many({name: content for name, (content, _) in batch.items()})
        except Exception as failure:  # whatever it is, those who wait for the batch raise it
            error = failure
        for _, future in batch.values():
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
