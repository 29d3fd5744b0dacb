"""The api's process: the method table over HTTP and over NATS until told to stop."""

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, cast

import uvicorn

from waterclock.api.application import Application, open_application
from waterclock.api.auth.nats_login import answering_logins
from waterclock.api.http import routes
from waterclock.api.http.browser_guard import HEADERS
from waterclock.api.http.fleet_gauges import fall_silent
from waterclock.api.http.protocol import Protocol
from waterclock.api.nats import service as nats_service
from waterclock.api.readmodels.freshness import known_streams
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.log_identity import LogWatch, check_against_read_models
from waterclock.core.runtime.account_keys import Issuer
from waterclock.core.runtime.lifecycle import StopSignal, ready
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tasks import supervised
from waterclock.core.runtime.tls import server_context

log = logging.getLogger(__name__)

_BACKLOG = 1024
_DATE_SECONDS = 1.0
_IDLE_SECONDS = 75
"""How long a connection stays open between two requests: longer than clients and balancers keep theirs (5 to 60 s).
Else some request meets one that is just being closed, and whoever sent it cannot know whether it was done."""
_OWN_FILES = 1000
_LEAVE_SECONDS = 1.0


class _Server(uvicorn.Server):
    """Signals are the service's business, not the server's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def exit_soon(self) -> None:
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        """Turns once a second, for the date in answers. uvicorn's own looks ten times whether it should exit, which was
        most of what an idle api did."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._told.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(settings: Settings, stop: StopSignal) -> None:
    async with open_application(settings) as app:
        log_watch = LogWatch(app.connection)
        await log_watch.check()
        await _check_log(app)
        async with logins(app), nats_service.serve(app), supervised() as tasks:
            tasks.keep(log_watch.run(), name="watch over the log")
            await serve_http(app, stop)
            with contextlib.suppress(LogError, TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await fall_silent(app.control, app.instance)


@contextlib.asynccontextmanager
async def logins(app: Application) -> AsyncIterator[None]:
    """Say whom the NATS server may let in, where it asks: where we have the key that it believes."""
    seed = app.settings.nats_issuer_seed
    if seed is None:
        yield
        return
    async with answering_logins(app.connection, Issuer(seed), app.gate, app.tokens):
        yield


async def _check_log(app: Application) -> None:
    """Compare the log with what Postgres remembers of it: an acknowledgement of one that has lost messages would be
    worth nothing. With Postgres away it is taken on trust."""
    try:
        known = await known_streams(app.pool)
    except ReadModelsAway as error:
        log.info("the log is taken on trust", extra={"reason": str(error)})
        return
    await check_against_read_models(app.connection, known)


async def serve_http(app: Application, stop: StopSignal) -> None:
    settings = app.settings
    config = uvicorn.Config(
        routes.build(app),
        http=cast(Any, partial(Protocol, most=settings.http_connections)),
        ws="none",
        headers=HEADERS,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=max(1, int(settings.grace_seconds)),
    )
    config.load()
    config.ssl = server_context(settings)
    server = _Server(config)
    _raise_open_files(settings.http_connections)
    with _listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        log.info("serving", extra={"url": f"{'https' if config.ssl else 'http'}://{host}:{port}"})
        ready()
        async with supervised() as tasks:
            tasks.spawn(_exit_when_told(server, stop), name="stop of the HTTP server")
            await server.serve(sockets=[listener])


def _raise_open_files(connections: int) -> None:
    """As many as the connections need, and some for ourselves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OWN_FILES
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


async def _exit_when_told(server: _Server, stop: StopSignal) -> None:
    await stop.wait()
    server.exit_soon()


def _listen(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), backlog=_BACKLOG, family=_family(host))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
