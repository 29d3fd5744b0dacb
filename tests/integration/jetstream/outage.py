"""Killing the server without stopping the test's own loop."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from servers.server import Server
from support.waiting import eventually


async def kill(server: Server) -> None:
    await asyncio.to_thread(server.kill)


async def start(server: Server) -> None:
    await asyncio.to_thread(server.start)


async def restart(server: Server) -> None:
    """kill -9, and up again on the same port with the same data."""
    await kill(server)
    await start(server)


@asynccontextmanager
async def hanging(server: Server) -> AsyncIterator[None]:
    """A server that is there and does nothing."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await eventually(
            lambda: all(state == "T" for state in _states(server.pid)), what="the server to stop"
        )
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def _states(pid: int) -> list[str]:
    """Of all its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]
