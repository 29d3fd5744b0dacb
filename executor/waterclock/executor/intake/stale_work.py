"""Removes work that is done but that a killed server has brought back: its acks were not synced to disk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.work_queue import SweepResult
from waterclock.executor.intake.sources import Source

_log = logging.getLogger(__name__)

_FIRST_SECONDS = 1.0
_AGAIN_SECONDS = 10.0

Sleep = Callable[[float], Awaitable[object]]


class Reconnecting(Protocol):
    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]: ...


class Sweeper(Protocol):
    async def sweep(self, consumer: str, subject: str) -> SweepResult: ...


async def sweep_after_restarts(
    connection: Reconnecting, queue: Sweeper, sources: Collection[Source], *, sleep: Sleep = asyncio.sleep
) -> None:
    """Soon after each restart, and again until all that the server had delivered by then is done.

    Only what lies before everything unfinished can be swept: one long attempt, or one that is redelivered late, holds
    up the rest. Once all that was delivered before the restart is done, nothing can be left.
    """
    restarted = asyncio.Event()
    restarted.set()
    unregister = connection.on_reconnect(restarted.set)
    try:
        while True:
            await restarted.wait()
            restarted.clear()
            await sleep(_FIRST_SECONDS)
            given_out = {source: await _sweep(queue, source) for source in list(sources)}
            while given_out and not restarted.is_set():
                await sleep(_AGAIN_SECONDS)
                for source, before in list(given_out.items()):
                    now = await _sweep(queue, source)
                    if before is None:
                        given_out[source] = now
                    elif now is not None and now.done >= before.given_out:
                        del given_out[source]
    finally:
        unregister()


async def _sweep(queue: Sweeper, source: Source) -> SweepResult | None:
    """None if the server does not answer."""
    try:
        swept = await queue.sweep(source.consumer, source.subject)
    except LogError:
        return None
    if swept.removed:
        _log.info("swept work that was done", extra={"consumer": source.consumer, "messages": swept.removed})
    return swept
