"""What a child runs, and how it tells that it does its work."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from waterclock.core.runtime.lifecycle import READY_FD
from waterclock.core.runtime.processes.process import Process, spawn


class ProgramFailed(Exception):
    """It did not come up, or came up in a way we must not run on."""


class Launched(Protocol):
    """One life of a program."""

    @property
    def process(self) -> Process: ...

    async def until_ready(self) -> None:
        """Return when the process does its work, never if it dies before; raise if it must not be used."""

    async def until_failing(self) -> str:
        """Return why the process, once ready, is of no use any more though it lives; usually never."""

    def close(self) -> None:
        """Call when the process is gone."""


class Program(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def stop_signal(self) -> signal.Signals: ...

    @property
    def grace(self) -> float:
        """Seconds between the stop signal and the kill."""

    def launch(self) -> Launched: ...


class Component:
    """One of our own services. It inherits a pipe and writes to it when it is ready (`service.ready`).

    `env` is read at every start; what it prints goes to `log`, or where ours goes.
    """

    stop_signal = signal.SIGTERM

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        grace: float,
        log: Path | None = None,
    ) -> None:
        self.name = name
        self.grace = grace
        self._argv = argv
        self._env = env
        self._log = log

    def launch(self) -> Launched:
        reader, writer = os.pipe()
        try:
            process = spawn(
                self._argv, env={**self._env, READY_FD: str(writer)}, pass_fds=[writer], log=self._log
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return _LaunchedComponent(process, reader)


class _LaunchedComponent:
    def __init__(self, process: Process, pipe: int) -> None:
        self.process = process
        self._pipe = pipe

    async def until_ready(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._pipe, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._pipe)
        if os.read(self._pipe, 1) == b"":
            await loop.create_future()

    async def until_failing(self) -> str:
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never  # a component that cannot work ends

    def close(self) -> None:
        os.close(self._pipe)
