"""What the supervisor and the tests need from a server that lives and dies with us."""

import signal
import time
from collections.abc import Sequence
from typing import Protocol

from waterclock.core.runtime.processes.process import Process

_POLL = 0.01


class ServerFailed(Exception):
    """A server that did not come up, or came up in a way we must not run on."""


class EmbeddedServer(Protocol):
    """Data in one directory, one loopback port that stays the same across restarts."""

    @property
    def name(self) -> str: ...

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal that means: finish cleanly and soon."""

    @property
    def url(self) -> str:
        """Where clients connect, with credentials. Known once prepared."""

    def prepare(self) -> None:
        """Everything that must be on disk before the first launch. Blocking; may be repeated."""

    def launch(self, *, inherit: Sequence[int] = ()) -> Process:
        """Start the process. It keeps the descriptors `inherit` open for as long as it lives."""

    def ready(self) -> bool:
        """Whether it takes clients now. Blocks briefly; raises ServerFailed if it must not be used."""

    def failing(self) -> str | None:
        """Why only a new start helps, if it is so. Blocks briefly."""


def start_blocking(server: EmbeddedServer, *, timeout: float = 30.0) -> Process:
    """Launch and wait until clients are welcome."""
    process = server.launch()
    try:
        deadline = time.monotonic() + timeout
        while not server.ready():
            if not process.alive:
                raise ServerFailed(f"{server.name} ended with {process.exit_code} while starting")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{server.name} did not take clients within {timeout:g} s")
            time.sleep(_POLL)
    except BaseException:
        process.kill()
        process.wait_blocking(timeout)
        raise
    return process
