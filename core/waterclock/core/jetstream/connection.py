"""One connection to NATS, with the options that make it safe to build on."""

import asyncio
import json
import logging
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats.errors
from nats.aio.msg import Msg

from waterclock.core.jetstream.errors import LogUnavailable, error_of
from waterclock.core.jetstream.inbox import Inbox
from waterclock.core.jetstream.wire import WireClient

logger = logging.getLogger(__name__)


class Connection:
    """A client that never gives up reconnecting and never sends later what it could not send at once."""

    def __init__(self, nc: WireClient) -> None:
        self.nc = nc
        self.inbox = Inbox(nc)
        self._on_reconnect: list[Callable[[], None]] = []
        self._up = asyncio.Event()
        self._last_error: Exception | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        name: str,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        credentials: Path | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = 10.0,
    ) -> AsyncIterator["Connection"]:
        """Connect to `url` (several servers: separated by commas), trying for `timeout` seconds.

        User and password, or a token, may also be part of the URL.
        """
        connection = cls(WireClient())
        servers = [server.strip() for server in url.split(",")]
        try:
            async with asyncio.timeout(timeout):
                await connection.nc.connect(
                    servers,
                    name=name,
                    user=user,
                    password=password,
                    token=token,
                    user_credentials=None if credentials is None else str(credentials),
                    tls=tls,
                    pending_size=0,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=random.uniform(0.1, 0.2),  # type: ignore[arg-type]
                    ping_interval=5,
                    max_outstanding_pings=2,
                    error_cb=connection._failed,
                    disconnected_cb=connection._disconnected,
                    reconnected_cb=connection._reconnected,
                )
                await connection.inbox.open()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            reason = connection._last_error or error
            await connection.nc.close()
            raise LogUnavailable(
                f"no NATS at {_without_secrets(servers)} after {timeout:g} s: {reason}"
            ) from error
        connection._up.set()
        try:
            yield connection
        finally:
            await connection.nc.close()

    async def request(
        self, subject: str, data: bytes = b"", *, timeout: float = 2.0, headers: dict[str, str] | None = None
    ) -> Msg:
        try:
            reply = await self.nc.request(subject, data, timeout=timeout, headers=headers)
        except (nats.errors.Error, OSError) as error:
            raise LogUnavailable(f"no answer on {subject}: {error}") from error
        return reply

    async def api(
        self, subject: str, body: dict[str, Any] | None = None, *, timeout: float = 5.0
    ) -> dict[str, Any]:
        payload = b"" if body is None else json.dumps(body).encode()
        reply = await self.request(f"$JS.API.{subject}", payload, timeout=timeout)
        answer: dict[str, Any] = json.loads(reply.data)
        if "error" in answer:
            raise error_of(answer["error"])
        return answer

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every reconnect; returns the unregister."""
        self._on_reconnect.append(callback)
        return lambda: self._on_reconnect.remove(callback) if callback in self._on_reconnect else None

    async def connected(self) -> None:
        """Wait until the server is there."""
        await self._up.wait()

    async def _failed(self, error: Exception) -> None:
        self._last_error = error
        logger.warning("nats: %s", error or type(error).__name__)

    async def _disconnected(self) -> None:
        self._up.clear()
        self.nc.forget_pending()
        self.inbox.disconnected()

    async def _reconnected(self) -> None:
        self._up.set()
        for callback in list(self._on_reconnect):
            callback()


def _without_secrets(servers: list[str]) -> str:
    return ", ".join(urlsplit(s if "://" in s else f"nats://{s}").netloc.rpartition("@")[2] for s in servers)
