"""The one place that runs tasks: a task that ends unexpectedly ends its owner.

    async with supervised() as tasks:
        tasks.keep(read_definitions(), name="definitions of partition 3")
        await decide_until_told_to_stop()

While the body runs, so do its tasks; when the body ends, they are cancelled and awaited. A kept task that raises, or
merely returns, cancels the body, and its error is what the `async with` raises. So no reader can die unheard while its
owner goes on as if it were listening. `asyncio.create_task` appears nowhere else in this project's services, but where
the same function awaits the task.

What a task raises because it is being ended is logged and no more: raised, it would take the place of the body's own
error, and of a cancellation of the owner, which would then go on as if nobody had cancelled it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

_log = logging.getLogger(__name__)


class TaskEnded(Exception):
    """A task that was to go on for as long as its owner has returned."""


class Tasks:
    """The tasks of one owner. Made by `supervised`."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._all: set[asyncio.Task[None]] = set()
        self.closing = False

    def keep(self, work: Coroutine[Any, Any, object], *, name: str) -> asyncio.Task[None]:
        """Run for as long as the owner does. To return is an error, too."""

        async def kept() -> None:
            await self._run(work, name)
            if not self.closing:
                raise TaskEnded(f"{name} has ended, which it must not")

        return self._start(kept(), work, name)

    def spawn(self, work: Coroutine[Any, Any, object], *, name: str) -> asyncio.Task[None]:
        """Run something that comes to an end. To raise is an error of the owner's."""

        return self._start(self._run(work, name), work, name)

    def cancel(self) -> None:
        self.closing = True
        for task in self._all:
            task.cancel()

    async def _run(self, work: Coroutine[Any, Any, object], name: str) -> None:
        try:
            await work
        except Exception:
            if not self.closing:
                raise
            _log.warning("a task failed while it was being ended", extra={"task": name}, exc_info=True)

    def _start(
        self, wrapped: Coroutine[Any, Any, None], work: Coroutine[Any, Any, object], name: str
    ) -> asyncio.Task[None]:
        task = self._group.create_task(wrapped, name=name)
        self._all.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._all.discard(task)
            work.close()  # one that was cancelled before its first step would complain that nobody awaited it

        task.add_done_callback(ended)
        return task


@asynccontextmanager
async def supervised() -> AsyncIterator[Tasks]:
    """Tasks that live and die with the body. Raises what ended first, by itself and not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group)
            try:
                yield tasks
            finally:
                tasks.cancel()
    except BaseExceptionGroup as errors:
        first = _first(errors)
        for other in errors.exceptions[1:]:
            if other is first:  # somebody in the body awaited the task
                continue
            first.add_note(f"also: {other!r}")
        raise first from first.__cause__


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
