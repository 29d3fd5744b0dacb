"""An api in this process in front of real servers: alone, or with all the other components beside it.

`house` is shared by the tests of a module, which keep apart by the ids of their jobs; `alone` is a test's own.
"""

import asyncio
import os
import pwd
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

import waterclock.executor.service
import waterclock.projector.service
import waterclock.scheduler.service
from servers.backend import own_nats
from servers.isolation import fresh_database
from support.waiting import eventually
from waterclock.api.application import Application, open_application
from waterclock.api.client.client import Client
from waterclock.api.nats import service
from waterclock.api.service import logins, serve_http
from waterclock.core.jetstream.connection import Connection, open_log
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.data_directory import ConnectionInfo, resolved, token_url, write_connection
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.ports import Port
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.secret_keys import SecretKeys

TOKEN = "a-token-for-these-tests-only"


@dataclass
class Served:
    app: Application
    http: httpx.AsyncClient
    client: Client
    nats: Connection
    """A connection with the rights of the token it was made with, where the server asks for one."""
    settings: Settings


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Served]:
    """The api over HTTP and NATS, and a client of each kind."""
    stop = StopSignal()
    async with (
        open_application(resolved(settings, "api")) as app,
        logins(app),
        service.serve(app),
        open_log(settings, name="raw") as raw,
        Client.connect(settings.nats_url, token=TOKEN, patience=3) as client,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{settings.port}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=20,
        ) as http,
    ):
        task = asyncio.create_task(serve_http(app, stop))
        try:
            await eventually(lambda: http.get("/healthz"), "the api to answer", through=(httpx.ConnectError,))
            yield Served(app, http, client, raw, settings)
        finally:
            stop.set()
            await task


@asynccontextmanager
async def furnished(settings: Settings) -> AsyncIterator[None]:
    """Scheduler, executor and projector, each as its own user where the server has one for it."""
    stop = StopSignal()
    components = {
        "scheduler": waterclock.scheduler.service,
        "executor": waterclock.executor.service,
        "projector": waterclock.projector.service,
    }
    tasks = [
        asyncio.create_task(component.run(resolved(settings, name), stop))
        for name, component in components.items()
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


_HELD: list[Port] = []
"""Ports that belong to this session until it ends."""


def settings_for(directory: Path, nats_url: str, database_url: str | None) -> Settings:
    port = Port()
    _HELD.append(port)
    return Settings(
        data=directory,
        nats_url=nats_url,
        database_url=database_url,
        port=port.secure(),
        token=TOKEN,
        partitions=4,
        grace_seconds=2,
        run_as=pwd.getpwuid(os.geteuid()).pw_name,  # tests let jobs write where only we can
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory, shared_postgres_url: str) -> AsyncIterator[Served]:
    directory = tmp_path_factory.mktemp("house")
    async with AsyncExitStack() as stack:
        nats = stack.enter_context(own_nats(directory))
        database_url = await stack.enter_async_context(fresh_database(shared_postgres_url))
        settings = settings_for(directory, token_url(TOKEN, nats.address), database_url)
        SecretKeys(settings).ensure()
        async with Connection.open(nats.url, name="layout") as admin:
            await ensure_streams(admin, Layout(partitions=settings.partitions))
        served = await stack.enter_async_context(serving(settings))
        await stack.enter_async_context(furnished(settings))
        yield served
    log = (directory / "logs" / "nats.log").read_text()
    assert [line for line in log.splitlines() if "Violation" in line] == []


@pytest.fixture
async def alone(tmp_path: Path, nats_url: str, database_url: str) -> AsyncIterator[Served]:
    """Without anybody who decides, runs or projects."""
    async with serving(settings_for(tmp_path, nats_url, database_url)) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def data(house: Served) -> Path:
    """A data directory as `up` leaves it: its connection.json leads to the house."""
    settings = house.settings
    connection = ConnectionInfo(
        http=f"http://127.0.0.1:{settings.port}",
        nats=settings.nats_url or "",
        database=settings.database_url or "",
        token=TOKEN,
    )
    await asyncio.to_thread(write_connection, settings.data, connection)
    return settings.data
