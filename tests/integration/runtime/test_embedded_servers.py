"""The embedded servers keep what they acknowledged, their port and their password, whatever ends them."""

import os
import stat
from pathlib import Path

import asyncpg
import nats
import pytest

from servers.backend import own_nats, own_postgres
from servers.server import Server
from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import start_blocking
from waterclock.core.runtime.processes.identity import unprivileged
from waterclock.core.runtime.processes.process import spawn, stop_blocking
from waterclock.core.runtime.processes.program import ProgramFailed


async def test_nats_keeps_acknowledged_messages_across_kill(nats_server: Server) -> None:
    client = await nats.connect(nats_server.url)
    stream = client.jetstream()
    await stream.add_stream(name="KEPT", subjects=["kept.>"])
    for number in range(50):
        await stream.publish(f"kept.{number}", b"x")
    await client.close()

    before = nats_server.url
    nats_server.kill()
    nats_server.start()

    assert nats_server.url == before
    client = await nats.connect(nats_server.url)
    assert (await client.jetstream().stream_info("KEPT")).state.messages == 50
    await client.close()


async def test_nats_wants_a_password(nats_server: Server) -> None:
    anonymous = "nats://" + nats_server.url.rpartition("@")[2]
    with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
        await nats.connect(anonymous, allow_reconnect=False, max_reconnect_attempts=0)


def test_nats_that_does_not_sync_is_refused(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path / "nats", log=tmp_path / "nats.log", access=ACCESS)
    server.prepare()
    config = tmp_path / "nats" / "nats.conf"
    config.write_text(config.read_text().replace('"sync_interval": "always",', ""))
    with pytest.raises(ProgramFailed, match="sync_always"):
        start_blocking(server)


async def test_postgres_keeps_committed_rows_across_kill(postgres_server: Server) -> None:
    connection = await asyncpg.connect(postgres_server.url)
    await connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 50) AS n")
    assert await connection.fetchval("SHOW data_checksums") == "on"
    assert await connection.fetchval("SHOW fsync") == "on"

    before = postgres_server.url
    postgres_server.kill()
    postgres_server.start()

    assert postgres_server.url == before
    connection = await asyncpg.connect(postgres_server.url)
    assert await connection.fetchval("SELECT count(*) FROM kept") == 50
    await connection.close()


async def test_postgres_wants_a_password(postgres_server: Server) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(postgres_server.url, password="guess")


async def test_postgres_starts_over_a_pid_file_that_names_somebody_else(tmp_path: Path) -> None:
    with own_postgres(tmp_path) as server:
        server.kill()
        pid_file = tmp_path / "postgres" / "data" / "postmaster.pid"
        _, rest = pid_file.read_text().split("\n", 1)
        pid_file.write_text(f"{os.getpid()}\n{rest}")
        again = EmbeddedPostgres(tmp_path / "postgres", log=tmp_path / "again.log")
        again.prepare()
        assert not pid_file.exists()
        stop_blocking(start_blocking(again), again.stop_signal)


def test_a_half_made_cluster_is_made_again(tmp_path: Path) -> None:
    torn = tmp_path / "postgres" / "data.new"
    torn.mkdir(parents=True)
    (torn / "PG_VERSION").write_text("18\n")
    with own_postgres(tmp_path) as server:
        assert server.pid


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    with own_nats(tmp_path), own_postgres(tmp_path):
        for name in ("nats/credentials.json", "nats/nats.conf", "postgres/password"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


async def test_a_server_that_refuses_root_reaches_what_root_can(
    tmp_path: Path,
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    identity = unprivileged()
    assert (os.geteuid() == 0) == (identity is not None)

    assert await spawn(["test", "-x", str(program)], identity=identity).wait() == 0
    assert await spawn([str(program)], identity=identity).wait() == 0
    may_write = (
        await spawn(["touch", str(closed / "new")], identity=identity, log=tmp_path / "log").wait() == 0
    )
    assert may_write == (identity is None)
