"""Getting connected, with every kind of credential, and being told when it cannot be."""

import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.jetstream.credentials import decentralised_auth, self_signed
from integration.jetstream.outage import kill, start
from integration.jetstream.relay import relay
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogUnavailable, NoResponders, NotFound, ServerRefused
from waterclock.core.runtime.ports import reserved_port

BINARY = Path(sys.executable).parent / "nats-server"


@contextmanager
def server_with(tmp_path: Path, settings: str) -> Iterator[str]:
    """A bare nats-server with settings of its own; yields host and port."""
    with reserved_port() as port:
        config = tmp_path / "bare.conf"
        config.write_text(f'listen: "127.0.0.1:{port}"\n{settings}\n')
        process = subprocess.Popen(
            [BINARY, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(10)


async def answers(connection: Connection) -> bool:
    """Whether the server has let us in."""
    with pytest.raises(NoResponders):
        await connection.request("nobody.home")
    return True


async def test_user_and_password_in_the_url_or_by_name(tmp_path: Path) -> None:
    with server_with(tmp_path, 'authorization { user: clock, password: "s@cret/x" }') as host:
        async with Connection.open(f"nats://clock:s%40cret%2Fx@{host}", name="test") as connection:
            assert await answers(connection)
        async with Connection.open(host, name="test", user="clock", password="s@cret/x") as connection:
            assert await answers(connection)


async def test_a_token_in_the_url_or_by_name(tmp_path: Path) -> None:
    with server_with(tmp_path, 'authorization { token: "t0ken" }') as host:
        async with Connection.open(f"nats://t0ken@{host}", name="test") as connection:
            assert await answers(connection)
        async with Connection.open(f"nats://{host}", name="test", token="t0ken") as connection:
            assert await answers(connection)


async def test_a_wrong_password_is_named_and_not_repeated(tmp_path: Path) -> None:
    with (
        server_with(tmp_path, "authorization { user: clock, password: right }") as host,
        pytest.raises(LogUnavailable, match="Authorization Violation") as caught,
    ):
        async with Connection.open(f"nats://clock:hunter2@{host}", name="test", timeout=30):
            pass
    assert "hunter2" not in str(caught.value)


async def test_an_encrypted_server_is_checked(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with server_with(tmp_path, f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}') as host:
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with Connection.open(f"tls://{host}", name="test", tls=trusting) as connection:
            assert await answers(connection)
        with pytest.raises(LogUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            async with Connection.open(
                f"tls://{host}", name="test", tls=ssl.create_default_context(), timeout=1
            ):
                pass


async def test_a_credentials_file(tmp_path: Path) -> None:
    settings, credentials = decentralised_auth(tmp_path)
    with server_with(tmp_path, settings) as host:
        async with Connection.open(host, name="test", credentials=credentials) as connection:
            assert await answers(connection)
        with pytest.raises(LogUnavailable, match="Authorization Violation"):
            async with Connection.open(host, name="test"):
                pass


async def test_no_server_is_named_within_the_timeout() -> None:
    began = time.monotonic()
    with (
        reserved_port() as port,
        pytest.raises(LogUnavailable, match=rf"no NATS at nats://127\.0\.0\.1:{port} within 0\.5 s"),
    ):
        async with Connection.open(f"nats://clock:secret@127.0.0.1:{port}", name="test", timeout=0.5):
            pass
    assert time.monotonic() - began < 2


async def test_a_server_that_comes_late_is_waited_for(nats_server: Server) -> None:
    await kill(nats_server)

    async def connect() -> bool:
        async with Connection.open(nats_server.url, name="test", timeout=20) as connection:
            return await answers(connection)

    connecting = asyncio.create_task(connect())
    await start(nats_server)
    assert await connecting


async def test_any_of_several_servers_will_do(log_url: str) -> None:
    with reserved_port() as nobody:
        async with Connection.open(f"nats://127.0.0.1:{nobody},{log_url}", name="test") as connection:
            assert await answers(connection)


async def test_the_api_tells_errors_apart(connection: Connection) -> None:
    with pytest.raises(NotFound):
        await connection.api("STREAM.INFO.NONE")
    with pytest.raises(ServerRefused):
        await connection.api("STREAM.CREATE.BAD", {"name": "BAD", "subjects": ["wc.jobs.1.x"]})


async def test_a_question_on_the_way_fails_when_the_server_goes_and_the_return_is_announced(
    log_url: str,
) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="test") as connection:
        returned: list[str] = []
        unregister = connection.on_reconnect(lambda: returned.append("first"))
        connection.on_reconnect(lambda: returned.append("second"))
        wire.muted = True
        began = time.monotonic()
        asking = asyncio.create_task(connection.request("$JS.API.INFO", timeout=30))
        await wire.swallowed.wait()
        wire.muted = False
        wire.cut()
        with pytest.raises(LogUnavailable):
            await asking
        assert time.monotonic() - began < 5
        await eventually(lambda: returned == ["first", "second"])
        unregister()
        wire.cut()
        await eventually(lambda: returned == ["first", "second", "second"])
        assert (await connection.request("$JS.API.INFO")).data


async def test_closing_with_the_server_away_does_not_hang(nats_server: Server) -> None:
    async with Connection.open(nats_server.url, name="test"):
        await kill(nats_server)
        began = time.monotonic()
    assert time.monotonic() - began < 3


async def test_a_cancellation_of_nats_pys_own_making_is_not_taken_for_ours(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It awaits a future that it has cancelled itself if the close meets a reconnect at its very beginning."""
    async with Connection.open(log_url, name="test") as connection:
        close = connection.nc.close

        async def close_and_trip() -> None:
            await close()
            raise asyncio.CancelledError

        monkeypatch.setattr(connection.nc, "close", close_and_trip)
    assert connection.nc.is_closed


async def test_a_cancellation_of_ours_is_kept_while_closing(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, never = asyncio.Event(), asyncio.Event()

    async def stuck() -> None:
        closing.set()
        await never.wait()

    opened: list[Connection] = []

    async def use() -> None:
        async with Connection.open(log_url, name="test") as connection:
            opened.append(connection)
            monkeypatch.setattr(connection.nc, "close", stuck)

    using = asyncio.create_task(use())
    await closing.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    monkeypatch.undo()
    await opened[0].nc.close()


async def test_an_outage_is_logged_once_and_a_bad_callback_does_not_stop_the_others(
    log_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "waterclock")
    async with relay(log_url) as wire, Connection.open(wire.url, name="test") as connection:
        returned = asyncio.Event()

        def fail() -> None:
            raise RuntimeError("a careless callback")

        connection.on_reconnect(fail)
        connection.on_reconnect(returned.set)
        wire.cut()
        await asyncio.wait_for(returned.wait(), 5)
        assert "a careless callback" in caplog.text
        assert caplog.text.count("connected again") == 1
        assert await answers(connection)
