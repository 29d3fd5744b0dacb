"""Executors in this process, for tests that need no process of their own."""

import asyncio
import os
import pwd
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from executor_rig.fake_owner import PARTITIONS
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.settings import Settings
from waterclock.executor.service import Executor
from waterclock.executor.worker import Worker


def settings_for(url: str, directory: Path, **settings: Any) -> Settings:
    """Jobs run as we do: tests let them write where only we can. What they write is not in the data directory, which
    they do not see."""
    chosen = {
        "nats_url": url,
        "data": directory / "data",
        "partitions": PARTITIONS,
        "grace_seconds": 5.0,
        "run_as": pwd.getpwuid(os.geteuid()).pw_name,
        **settings,
    }
    return Settings(**chosen)


class RunningExecutor:
    """A running executor."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.executor_id = executor.executor_id
        self._stop = StopSignal()
        self._running = asyncio.create_task(executor.run(self._stop))

    async def open(self) -> None:
        """Wait until it takes work."""
        taking = asyncio.create_task(self.executor.taking_work.wait())
        await asyncio.wait([taking, self._running], return_when=asyncio.FIRST_COMPLETED)
        taking.cancel()

    async def close(self) -> None:
        """Drain and end, as on SIGTERM."""
        self._stop.set()
        await self._running

    async def cancel(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])


@asynccontextmanager
async def running_executor(
    settings: Settings, workers: Sequence[Worker] = (), *, processes: bool = True
) -> AsyncIterator[RunningExecutor]:
    executor = RunningExecutor(Executor(settings, workers, processes=processes))
    try:
        await executor.open()
        yield executor
    finally:
        if not executor._running.done():
            await executor.close()
        else:
            executor._running.result()
