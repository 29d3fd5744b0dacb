"""Killing the server without stopping the test's own loop."""

import asyncio

from servers.server import Server


async def kill(server: Server) -> None:
    await asyncio.to_thread(server.kill)


async def start(server: Server) -> None:
    await asyncio.to_thread(server.start)


async def restart(server: Server) -> None:
    """kill -9, and up again on the same port with the same data."""
    await kill(server)
    await start(server)
