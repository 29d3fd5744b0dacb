"""A server that lives and dies with us: what the supervisor and the tests need from it."""

import asyncio
import signal
import time
from collections.abc import Sequence
from typing import Protocol

from waterclock.core.runtime.processes.process import Process
from waterclock.core.runtime.processes.program import Launched, ProgramFailed

_POLL = 0.01
_WATCH = 1.0


class EmbeddedServer(Protocol):
    """Data in one directory, and a loopback port that it keeps across restarts while nobody else takes it."""

    @property
    def name(self) -> str: ...

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal that means: finish cleanly and soon."""

    @property
    def url(self) -> str:
        """Where clients connect, with credentials. Known once prepared; a launch may change the port."""

    def prepare(self) -> None:
        """Everything that must be on disk before the first launch. Blocking; may be repeated."""

    def launch(self, *, inherit: Sequence[int] = ()) -> Process:
        """Start the process, on other ports than before if somebody else listens on those.

        It keeps the descriptors `inherit` open for as long as it lives.
        """

    def ready(self) -> bool:
        """Whether it takes clients now. Blocks briefly; raises ProgramFailed if it must not be used."""

    def lost_port(self) -> bool:
        """Asked when the process is gone: whether somebody else listens on one of its ports."""

    def failing(self) -> str | None:
        """Why only a new start helps, if it is so. Blocks briefly."""


class ServerProgram:
    """An embedded server, asked again and again until it takes clients."""

    grace = 10.0

    def __init__(self, server: EmbeddedServer, *, inherit: Sequence[int] = ()) -> None:
        self.name = server.name
        self.stop_signal = server.stop_signal
        self._server = server
        self._inherit = inherit

    def launch(self) -> Launched:
        return _LaunchedServer(self._server.launch(inherit=self._inherit), self._server)


class _LaunchedServer:
    def __init__(self, process: Process, server: EmbeddedServer) -> None:
        self.process = process
        self._server = server

    async def until_ready(self) -> None:
        while not await asyncio.to_thread(self._server.ready):
            await asyncio.sleep(_POLL)

    async def until_failing(self) -> str:
        while (reason := await asyncio.to_thread(self._server.failing)) is None:
            await asyncio.sleep(_WATCH)
        return reason

    def lost_port(self) -> bool:
        return self._server.lost_port()

    def close(self) -> None:
        pass


def start_blocking(server: EmbeddedServer, *, timeout: float = 30.0) -> Process:
    """Launch and wait until clients are welcome. One that lost its port to another process takes the next."""
    deadline = time.monotonic() + timeout
    while True:
        process = server.launch()
        try:
            if _comes_up(server, process, deadline):
                return process
        except BaseException:
            process.kill()
            process.wait_blocking(timeout)
            raise
        if not server.lost_port():
            raise ProgramFailed(f"{server.name} ended with {process.exit_code} while starting")


def _comes_up(server: EmbeddedServer, process: Process, deadline: float) -> bool:
    """False if it ends before."""
    while not server.ready():
        if not process.alive:
            return False
        if time.monotonic() > deadline:
            raise ProgramFailed(f"{server.name} did not take clients in time")
        time.sleep(_POLL)
    return True
