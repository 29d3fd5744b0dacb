"""Executors as processes of their own, for tests that kill, freeze or drain them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from waterclock.core.runtime.lifecycle import READY_FD
from waterclock.core.runtime.settings import Settings, as_environment

TESTS = Path(__file__).parent.parent


class ExecutorProcess:
    def __init__(self, settings: Settings) -> None:
        readable, writable = os.pipe()
        environ = {**os.environ, **as_environment(settings), READY_FD: str(writable)}
        environ["PYTHONPATH"] = str(TESTS)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "executor_rig"], env=environ, pass_fds=[writable], cwd=TESTS
        )
        os.close(writable)
        self._readable = readable

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ready(self) -> None:
        told = await asyncio.to_thread(os.read, self._readable, 1)
        os.close(self._readable)
        assert told == b"1", "the executor ended before it was ready"

    async def ended(self) -> int:
        return await asyncio.to_thread(self._process.wait, 30)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()


@asynccontextmanager
async def executor_process(settings: Settings) -> AsyncIterator[ExecutorProcess]:
    executor = ExecutorProcess(settings)
    try:
        await executor.ready()
        yield executor
    finally:
        executor.end()
