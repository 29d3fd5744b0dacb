"""The api's process: the method table over HTTP and over NATS until told to stop."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn

from waterclock.api.application import Application, open_application
from waterclock.api.commands import log_check
from waterclock.api.http import routes
from waterclock.api.nats import service
from waterclock.core.jetstream.log_identity import LogWatch
from waterclock.core.runtime.lifecycle import StopSignal, ready
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tls import server_context

log = logging.getLogger(__name__)

_BACKLOG = 1024


class _Server(uvicorn.Server):
    """Signals are the service's business, not the server's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(settings: Settings, stop: StopSignal) -> None:
    async with open_application(settings) as app:
        log_watch = LogWatch(app.connection)
        await log_watch.check()
        await log_check.check(app)
        async with service.serve(app):
            serving = asyncio.create_task(serve_http(app, stop))
            watching = asyncio.create_task(log_watch.run())
            try:
                done, _ = await asyncio.wait([serving, watching], return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    await task
            finally:
                for task in (serving, watching):
                    task.cancel()
                await asyncio.gather(serving, watching, return_exceptions=True)


async def serve_http(app: Application, stop: StopSignal) -> None:
    settings = app.settings
    config = uvicorn.Config(
        routes.build(app),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, int(settings.grace_seconds)),
        h11_max_incomplete_event_size=64 * 1024,
    )
    config.load()
    config.ssl = server_context(settings)
    server = _Server(config)
    with _listen(settings.host, settings.port) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        host, port = listener.getsockname()[:2]
        log.info("serving", extra={"url": f"{'https' if config.ssl else 'http'}://{host}:{port}"})
        ready()
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        server.should_exit = True
        await serving


def _listen(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), backlog=_BACKLOG, family=_family(host))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
