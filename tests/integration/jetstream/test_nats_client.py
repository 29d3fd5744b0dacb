"""The insides of nats-py that `wire.py` relies on are still as it knows them."""

import asyncio

import pytest
from nats.errors import StaleConnectionError

from integration.jetstream.outage import hanging
from integration.jetstream.relay import relay
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.nats_client import Disconnected


async def test_a_tap_hears_until_it_ends_also_after_a_reconnect(log_url: str) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="test") as connection:
        heard: list[bytes] = []
        end = await connection.nc.tap("topic.*", lambda *message: heard.append(message[3]))
        connection.nc.send(b"PUB topic.a 1\r\n1\r\n")
        await eventually(lambda: heard == [b"1"])
        returned = asyncio.Event()
        connection.on_reconnect(returned.set)
        wire.cut()
        await returned.wait()
        connection.nc.send(b"PUB topic.a 1\r\n2\r\n")
        await eventually(lambda: heard == [b"1", b"2"])
        end()
        connection.nc.send(b"PUB topic.a 1\r\n3\r\n")
        await connection.nc.flush()
        assert heard == [b"1", b"2"]
        assert connection.nc.is_connected


async def test_taps_and_nats_pys_own_subscriptions_live_together(log_url: str) -> None:
    async with Connection.open(log_url, name="test") as connection:
        tapped: list[bytes] = []
        await connection.nc.tap("topic.>", lambda *message: tapped.append(message[3]))
        ordinary = await connection.nc.subscribe("topic.>")
        await connection.nc.publish("topic.a", b"x" * 200_000, headers={"A": "1"})
        message = await ordinary.next_msg(timeout=5)
        assert (len(message.data), message.headers) == (200_000, {"A": "1"})
        await eventually(lambda: tapped == [message.data])


async def test_what_is_said_in_one_turn_is_one_write(log_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Connection.open(log_url, name="test") as connection:
        heard: list[bytes] = []
        await connection.nc.tap("topic", lambda *message: heard.append(message[3]))
        writes: list[bytes] = []
        transport = connection.nc._transport
        assert transport is not None
        write = transport.write

        def spied(payload: bytes) -> None:
            writes.append(payload)
            write(payload)

        monkeypatch.setattr(transport, "write", spied)
        for number in range(100):
            connection.nc.send_soon(b"PUB topic 3\r\n%03d\r\n" % number)
        await eventually(lambda: len(heard) == 100)
        assert heard == [b"%03d" % number for number in range(100)]
        assert len(writes) == 1


async def test_nothing_is_kept_over_a_disconnect(log_url: str) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="test") as connection:
        returned = asyncio.Event()
        connection.on_reconnect(returned.set)
        heard: list[bytes] = []
        await connection.nc.tap("topic", lambda *message: heard.append(message[3]))
        await connection.nc.flush()
        connection.nc._pending = [b"PUB topic 5\r\nghost\r\n"]
        wire.cut()
        await eventually(lambda: not connection.nc.is_connected)
        with pytest.raises(Disconnected):
            connection.nc.send(b"PUB topic 5\r\nghost\r\n")
        connection.nc.send_soon(b"PUB topic 5\r\nghost\r\n")
        await returned.wait()
        connection.nc.send(b"PUB topic 4\r\nreal\r\n")
        await eventually(lambda: heard)
        assert heard == [b"real"]


async def test_an_error_from_the_server_leads_to_a_reconnect_not_to_the_end(log_url: str) -> None:
    async with Connection.open(log_url, name="test") as connection:
        returned = asyncio.Event()
        connection.on_reconnect(returned.set)
        connection.nc.send(b"NONSENSE\r\n")
        await asyncio.wait_for(returned.wait(), 5)
        await connection.api("INFO")


async def test_a_full_socket_to_a_hanging_server_does_not_hang_the_close(nats_server: Server) -> None:
    async with Connection.open(nats_server.url, name="test") as connection, hanging(nats_server):
        for _ in range(64):
            connection.nc.send(b"PUB topic 1000000\r\n" + b"x" * 1_000_000 + b"\r\n")
        await asyncio.wait_for(connection._close(), 5)


async def test_a_socket_that_nobody_reads_does_not_hold_up_the_reconnect(log_url: str) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="test") as connection:
        returned = asyncio.Event()
        connection.on_reconnect(returned.set)
        wire.stall()
        for _ in range(64):
            connection.nc.send(b"PUB topic 1000000\r\n" + b"x" * 1_000_000 + b"\r\n")
        await connection.nc._process_op_err(StaleConnectionError())
        await asyncio.wait_for(returned.wait(), 5)
        await connection.api("INFO")
