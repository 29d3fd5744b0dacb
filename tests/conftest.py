"""Servers for tests: real ones, started by the fixture that needs them."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from servers.backend import own_nats, own_postgres, shared_nats, shared_postgres
from servers.isolation import delete_streams, fresh_database
from servers.leftovers import kill, leftovers, mark_session
from servers.server import Server
from waterclock.core.runtime.ports import LOOPBACK

# How long an example takes is the machine's affair: it may be busy with something else.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


def pytest_configure() -> None:
    mark_session()
    if os.geteuid() == 0:
        # Tests let jobs write where only root can. What is so by default is for tests/security, which takes it away.
        os.environ.setdefault("WATERCLOCK_RUN_AS", "root")
    # Where the session was started in the background SIGINT is ignored, and would be by every child too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    left = leftovers(grace=5.0)
    if left:
        kill(left)
        lines = "".join(f"\n  {pid} {command}" for pid, command in left.items())
        print(f"\nthe tests left processes behind:{lines}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[Server]:
    """A nats-server of the test's own: `url`, `pid`, `kill()`, `stop()`, `start()`."""
    with own_nats(tmp_path) as server:
        yield server


@pytest.fixture
def postgres_server(tmp_path: Path) -> Iterator[Server]:
    """A Postgres of the test's own, for tests that kill it. Others take `database_url`, which is quicker."""
    with own_postgres(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def shared_nats_url() -> Iterator[str | None]:
    shared = shared_nats()
    if shared is None:
        yield None
    else:
        with shared as url:
            yield url


@pytest.fixture(scope="session")
def shared_postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shared_postgres(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture
async def nats_url(shared_nats_url: str | None, request: pytest.FixtureRequest) -> str:
    """An empty JetStream, synced on every ack."""
    if shared_nats_url is None:
        server: Server = request.getfixturevalue("nats_server")
        return server.url
    await delete_streams(shared_nats_url)
    return shared_nats_url


@pytest.fixture
async def database_url(shared_postgres_url: str) -> AsyncIterator[str]:
    """An empty database; its role may create schemas, roles and databases."""
    async with fresh_database(shared_postgres_url) as url:
        yield url


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A service that speaks S3, common to all; buckets are for the tests to make."""
    from moto.server import ThreadedMotoServer  # takes a second to import

    server = ThreadedMotoServer(ip_address=LOOPBACK, port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
