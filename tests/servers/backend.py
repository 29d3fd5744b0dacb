"""Where the tests take their servers from.

embedded        (default) children of the test session
by URL          WATERCLOCK_TEST_NATS_URL, WATERCLOCK_TEST_DATABASE_URL: servers that run already;
                streams there are deleted, databases are created beside the one named
testcontainers  WATERCLOCK_TEST_BACKEND=testcontainers: containers, where Docker is there

Tests that kill a server always use one of their own, embedded.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres

from .server import Server


def own_nats(directory: Path) -> AbstractContextManager[Server]:
    return _running(
        Server(EmbeddedNats(directory / "nats", log=directory / "logs" / "nats.log", access=ACCESS))
    )


def own_postgres(directory: Path) -> AbstractContextManager[Server]:
    postgres = EmbeddedPostgres(
        directory / "postgres", log=directory / "logs" / "postgres.log", create_databases=True
    )
    return _running(Server(postgres))


def shared_nats() -> AbstractContextManager[str] | None:
    """One nats-server for the whole session; None means: every test gets its own."""
    if url := os.environ.get("WATERCLOCK_TEST_NATS_URL"):
        return nullcontext(url)
    if _uses_containers():
        from . import containers

        return containers.nats()
    return None


@contextmanager
def shared_postgres(directory: Path) -> Iterator[str]:
    """One Postgres for the whole session; tests get a database of their own on it."""
    if url := os.environ.get("WATERCLOCK_TEST_DATABASE_URL"):
        yield url
    elif _uses_containers():
        from . import containers

        with containers.postgres() as url:
            yield url
    else:
        with own_postgres(directory) as server:
            yield server.url


@contextmanager
def _running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _uses_containers() -> bool:
    backend = os.environ.get("WATERCLOCK_TEST_BACKEND", "embedded")
    if backend not in ("embedded", "testcontainers"):
        raise ValueError(f"WATERCLOCK_TEST_BACKEND: expected embedded or testcontainers, found {backend!r}")
    return backend == "testcontainers"
