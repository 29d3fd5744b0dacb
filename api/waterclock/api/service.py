"""The api's process: the method table over HTTP and over NATS until told to stop."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn

from waterclock.api import nats_service
from waterclock.api.application import Application, open_application
from waterclock.api.rest import routes
from waterclock.core.runtime.service import StopSignal, ready
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
    async with open_application(settings) as app, nats_service.serve(app):
        await serve_http(app, stop)


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
