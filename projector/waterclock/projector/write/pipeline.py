"""One batch on its way into Postgres while the next is prepared: each side then has a processor busy."""

import asyncio
from collections.abc import Callable, Coroutine


class Writing:
    """At most one write is under way. Its error is raised by whatever waits for it next."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def begin(self, write: Callable[[], Coroutine[None, None, None]]) -> None:
        """Once the one before is done."""
        await self.done()
        self._task = asyncio.create_task(write())

    async def done(self) -> None:
        if self._task is not None:
            await self._task
            self._task = None

    async def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
