"""Small objects that come at the same time go in together."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from waterclock.core.jetstream.errors import LogError

_MOST_OBJECTS = 400
_MOST_BYTES = 2 * 1024 * 1024

Batch = dict[str, tuple[bytes, "asyncio.Future[None]"]]
PutMany = Callable[[Mapping[str, bytes]], Awaitable[None]]


class Gathering:
    """One batch in flight; what comes meanwhile is the next. A lone object waits for nobody."""

    def __init__(self, put_many: PutMany) -> None:
        self._put_many = put_many
        self._waiting: Batch = {}
        self._carrier: asyncio.Task[None] | None = None

    async def put(self, name: str, content: bytes) -> None:
        while name in self._waiting:
            await asyncio.wait([self._waiting[name][1]])
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[name] = content, future
        if self._carrier is None:
            self._carrier = asyncio.create_task(self._carry())
        await future

    async def _carry(self) -> None:
        try:
            while self._waiting:
                await self._deliver(self._next_batch())
        finally:
            self._carrier = None

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
        error: LogError | None = None
        try:
            await self._put_many({name: content for name, (content, _) in batch.items()})
        except LogError as refused:
            error = refused
        for _, future in batch.values():
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
