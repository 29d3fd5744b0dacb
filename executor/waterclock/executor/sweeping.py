"""Work that is done, but that a killed server has not removed."""

import asyncio
import logging
from collections.abc import Collection

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.work_queue import WorkQueue
from waterclock.executor.source import Source

_log = logging.getLogger(__name__)

_WAITS = (1.0, 10.0)
"""Soon after a restart, and again when what the server had given out before it has come back."""


async def sweep_after_restarts(connection: Connection, queue: WorkQueue, sources: Collection[Source]) -> None:
    restarted = asyncio.Event()
    restarted.set()
    forget = connection.on_reconnect(restarted.set)
    try:
        while True:
            await restarted.wait()
            restarted.clear()
            for wait in _WAITS:
                await asyncio.sleep(wait)
                await _sweep(queue, sources)
    finally:
        forget()


async def _sweep(queue: WorkQueue, sources: Collection[Source]) -> None:
    for source in sources:
        try:
            swept = await queue.sweep(source.consumer, source.subject)
        except LogError:
            continue
        if swept:
            _log.info("swept work that was done", extra={"consumer": source.consumer, "messages": swept})
