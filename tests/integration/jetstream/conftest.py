"""A connection to an empty JetStream with all of waterclock's streams."""

from collections.abc import AsyncIterator, Iterator

import pytest

from servers.backend import own_nats
from servers.isolation import delete_streams
from servers.server import Server
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams


@pytest.fixture(scope="package")
def steady_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that do it no harm: three times as quick as one for each."""
    with own_nats(tmp_path_factory.mktemp("steady")) as server:
        yield server


@pytest.fixture
async def log_url(request: pytest.FixtureRequest) -> str:
    """An empty JetStream: the test's own server if it takes one to kill, else the common one."""
    if "nats_server" in request.fixturenames:
        own: Server = request.getfixturevalue("nats_server")
        return own.url
    steady: Server = request.getfixturevalue("steady_nats")
    await delete_streams(steady.url)
    return steady.url


@pytest.fixture
async def connection(log_url: str) -> AsyncIterator[Connection]:
    async with Connection.open(log_url, name="test") as connection:
        await ensure_streams(connection, Layout())
        yield connection


@pytest.fixture
def publisher(connection: Connection) -> Publisher:
    return Publisher(connection)
