"""An api in this process, in front of real servers, with a projector behind it where a test looks at runs."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from waterclock.api import nats_service
from waterclock.api.application import Application, open_application
from waterclock.api.client.client import Client
from waterclock.api.service import serve_http
from waterclock.core.runtime.service import StopSignal
from waterclock.core.runtime.settings import Settings

TOKEN = "a-token-for-these-tests-only"


@dataclass
class Served:
    app: Application
    http: httpx.AsyncClient
    client: Client
    settings: Settings


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Served]:
    stop = StopSignal()
    async with (
        open_application(settings) as app,
        nats_service.serve(app),
        Client.connect(settings.nats_url, token=TOKEN) as client,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{settings.port}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=20,
        ) as http,
    ):
        task = asyncio.create_task(serve_http(app, stop))
        try:
            async with asyncio.timeout(5):
                while True:
                    with suppress(httpx.ConnectError):
                        await http.get("/healthz")
                        break
                    await asyncio.sleep(0.01)
            yield Served(app, http, client, settings)
        finally:
            stop.set()
            await task


@pytest.fixture
def settings(nats_url: str, database_url: str, tmp_path: Path) -> Settings:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return Settings(
        data=tmp_path, nats_url=nats_url, database_url=database_url, port=port, token=TOKEN, partitions=4
    )


@pytest.fixture
async def served(settings: Settings) -> AsyncIterator[Served]:
    async with serving(settings) as api:
        yield api
