"""With TLS set, a peer is who its certificate says and speaks encrypted, or there is no connection."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from servers.certificates import Authority, Signed
from servers.postgres_tls import behind_tls
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.client.client import Client
from waterclock.api.client.discovery import find
from waterclock.api.errors import Unreachable
from waterclock.core.jetstream.connection import open_log
from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.embedded.nats import nats_server_binary
from waterclock.core.runtime.ports import is_free, reserved_port
from waterclock.core.runtime.settings import Settings, SettingsError, as_environment
from waterclock.core.runtime.tls import nats_context, server_context, with_database_tls
from waterclock.proto import methods, queries

LOOPBACK = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def nats_with_tls(directory: Path, signed: Signed, *, clients: Path | None = None) -> Iterator[str]:
    """Its URL. `clients`: who must have signed the certificates of those who connect."""
    with reserved_port() as port:
        tls: dict[str, object] = {"cert_file": str(signed.certificate), "key_file": str(signed.key)}
        if clients is not None:
            tls |= {"ca_file": str(clients), "verify": True}
        config = directory / "tls-nats.conf"
        config.write_text(
            json.dumps(
                {
                    "listen": f"{LOOPBACK}:{port}",
                    "tls": tls,
                    "authorization": {"user": "u", "password": "secret"},
                    "jetstream": {"store_dir": str(directory / "tls-nats")},
                }
            )
        )
        server = subprocess.Popen([nats_server_binary(), "--config", str(config)], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 20
            while is_free(port):
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield f"nats://u:secret@{LOOPBACK}:{port}"
        finally:
            server.terminate()
            server.wait(20)


async def reached(settings: Settings) -> None:
    async with open_log(settings, name="tls") as log:
        await ensure_streams(log, Layout())
        await stream_state(log, "JOBS")


async def refused(settings: Settings, reason: str) -> None:
    """By the components, by the Python client and by the command line's own."""
    with pytest.raises(LogUnavailable, match=reason):
        async with open_log(settings, name="tls"):
            pass
    environ = as_environment(settings)
    with pytest.raises(Unreachable, match=reason):
        async with Client.connect(environ=environ, patience=1):
            pass
    way = find(environ=environ)
    wire = BlockingWire(way.url, token=None, inbox=way.inbox, tls=way.tls(), patience=0.1)
    with pytest.raises(Unreachable, match=reason):
        wire.call(methods.JOBS_LIST, queries.JobsQuery())


async def test_nats_behind_the_right_certificate_is_used(tmp_path: Path, authority: Authority) -> None:
    with nats_with_tls(tmp_path, authority.signs(LOOPBACK)) as url:
        settings = Settings(nats_url=url, nats_ca=authority.file)
        await reached(settings)
        way = find(environ=as_environment(settings))
        wire = BlockingWire(way.url, token=None, tls=way.tls(), patience=0.1)
        with pytest.raises(Unreachable, match="no waterclock api listens"):
            wire.call(methods.JOBS_LIST, queries.JobsQuery())
        wire.close()


async def test_nats_signed_by_somebody_else_is_refused(tmp_path: Path, authority: Authority) -> None:
    other = Authority(tmp_path, "other")
    with nats_with_tls(tmp_path, authority.signs(LOOPBACK)) as url:
        await refused(Settings(nats_url=url, nats_ca=other.file), "(?i)certificate")
        await refused(Settings(nats_url=url, nats_tls="on"), "(?i)certificate")


async def test_nats_under_another_name_is_refused(tmp_path: Path, authority: Authority) -> None:
    with nats_with_tls(tmp_path, authority.signs("elsewhere.example")) as url:
        await refused(Settings(nats_url=url, nats_ca=authority.file), "(?i)(certificate|mismatch)")


async def test_nats_with_an_old_certificate_is_refused(tmp_path: Path, authority: Authority) -> None:
    with nats_with_tls(tmp_path, authority.signs(LOOPBACK, expired=True)) as url:
        await refused(Settings(nats_url=url, nats_ca=authority.file), "(?i)certificate")


async def test_nats_in_plain_text_is_refused(nats_url: str, authority: Authority) -> None:
    """nats-py alone would go on in the clear, and send the password."""
    for settings in (
        Settings(nats_url=nats_url, nats_ca=authority.file),
        Settings(nats_url=nats_url, nats_tls="on"),
        Settings(nats_url=nats_url.replace("nats://", "tls://")),
    ):
        await refused(settings, "does not speak TLS")


async def test_nats_that_asks_for_a_certificate_gets_ours(tmp_path: Path, authority: Authority) -> None:
    mine = authority.signs("me")
    with nats_with_tls(tmp_path, authority.signs(LOOPBACK), clients=authority.file) as url:
        await reached(
            Settings(nats_url=url, nats_ca=authority.file, nats_cert=mine.certificate, nats_key=mine.key)
        )
        with pytest.raises(LogUnavailable):
            async with open_log(Settings(nats_url=url, nats_ca=authority.file), name="nobody"):
                pass


async def test_postgres_is_verified_in_full(database_url: str, tmp_path: Path, authority: Authority) -> None:
    async def ask(url: str, **settings: Path | str) -> object:
        secured = with_database_tls(Settings(database_url=url, **settings)).database_url  # type: ignore[arg-type]
        assert secured is not None
        connection = await asyncpg.connect(secured, timeout=10)
        try:
            return await connection.fetchval("SELECT 7")
        finally:
            await connection.close()

    other = Authority(tmp_path, "other")
    async with behind_tls(database_url, authority.signs(LOOPBACK)) as url:
        assert await ask(url, database_ca=authority.file) == 7
        with pytest.raises(OSError, match=r"(?i)certificate"):
            await ask(url, database_ca=other.file)
        with pytest.raises(OSError, match=r"(?i)certificate"):
            await ask(url, database_tls="on")
    async with behind_tls(database_url, authority.signs("elsewhere.example")) as url:
        with pytest.raises(OSError, match=r"(?i)(certificate|mismatch)"):
            await ask(url, database_ca=authority.file)
    with pytest.raises(OSError, match="rejected SSL"):
        await ask(database_url, database_ca=authority.file)


def test_no_context_is_weaker_than_it_should_be(authority: Authority) -> None:
    import ssl

    mine = authority.signs(LOOPBACK)
    to_nats = nats_context(Settings(nats_url="tls://nats:4222"))
    assert to_nats is not None
    assert to_nats.verify_mode == ssl.CERT_REQUIRED
    assert to_nats.check_hostname
    ours = server_context(Settings(http_cert=mine.certificate, http_key=mine.key))
    assert ours is not None
    for context in (to_nats, ours):
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert nats_context(Settings(nats_url="nats://nats:4222")) is None
    assert server_context(Settings()) is None


def test_a_file_that_is_none_is_named(tmp_path: Path, authority: Authority) -> None:
    nothing = tmp_path / "nothing.pem"
    with pytest.raises(SettingsError, match=r"nats_ca: expected a file of certificates"):
        nats_context(Settings(nats_url="nats://nats", nats_ca=nothing))
    with pytest.raises(SettingsError, match=r"nats_cert: expected a certificate"):
        nats_context(Settings(nats_url="nats://nats", nats_cert=nothing))
    with pytest.raises(SettingsError, match=r"http_cert: expected a certificate"):
        server_context(Settings(http_cert=authority.file))
    with pytest.raises(SettingsError, match=r"database_ca: expected a file"):
        with_database_tls(Settings(database_url="postgresql://u@host/db", database_ca=nothing))


def test_a_component_with_a_wrong_file_ends_with_2_and_a_line(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "waterclock.api.cli", "scheduler", "--nats-url", "nats://127.0.0.1:1"]
    environment = as_environment(Settings(nats_ca=tmp_path / "nothing.pem", data=tmp_path))
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert "nats_ca: expected a file of certificates in PEM" in line
