"""The parser sees the same messages wherever the network cuts the stream of bytes."""

import asyncio
from typing import Any

import pytest
from nats.errors import ProtocolError

from waterclock.core.jetstream.nats_client import Disconnected, WireClient

WIRE = (
    b"MSG a.b 1 5\r\nhello\r\n"
    b"PONG\r\n"
    b"MSG a.c 1 _INBOX.x.1 0\r\n\r\n"
    b"+OK\r\n"
    b"HMSG a.d 1 16 22\r\nNATS/1.0\r\nA: 1\r\n"
    b"two\r\nM\r\n"
    b"HMSG a.e 1 r.1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    b"MSG a.f 1 19\r\nMSG a.g 1 1\r\nx\r\n+OK\r\n"
)
MESSAGES = [
    (b"a.b", b"", b"", b"hello"),
    (b"a.c", b"_INBOX.x.1", b"", b""),
    (b"a.d", b"", b"NATS/1.0\r\nA: 1\r\n", b"two\r\nM"),
    (b"a.e", b"r.1", b"NATS/1.0\r\n\r\n", b""),
    (b"a.f", b"", b"", b"MSG a.g 1 1\r\nx\r\n+OK"),
]


@pytest.fixture
def seen() -> list[tuple[bytes, bytes, bytes, bytes]]:
    return []


@pytest.fixture
async def client(seen: list[tuple[bytes, bytes, bytes, bytes]]) -> WireClient:
    client = WireClient()
    client.taps[1] = lambda *message: seen.append(message)
    return client


async def test_cut_into_pieces_of_any_size(
    client: WireClient, seen: list[tuple[bytes, bytes, bytes, bytes]]
) -> None:
    for size in range(1, len(WIRE) + 1):
        seen.clear()
        for start in range(0, len(WIRE), size):
            await client._ps.parse(WIRE[start : start + size])
        assert seen == MESSAGES, f"in pieces of {size}"


@pytest.mark.parametrize("turns", [1, 2, 5])
async def test_what_goes_straight_from_the_socket_to_a_tap_stays_in_order(
    client: WireClient, seen: list[tuple[bytes, bytes, bytes, bytes]], turns: int
) -> None:
    """`turns`: in every so many pieces the read loop has its turn."""
    client._status = WireClient.CONNECTED
    for size in range(1, len(WIRE) + 1):
        seen.clear()
        reader: Any = asyncio.StreamReader()
        client._ps.read_from(reader)
        for number, start in enumerate(range(0, len(WIRE), size), 1):
            reader.feed_data(WIRE[start : start + size])
            if number % turns == 0 and reader._buffer:
                await client._ps.parse(await reader.read(1 << 16))
        if reader._buffer:
            await client._ps.parse(await reader.read(1 << 16))
        assert seen == MESSAGES, f"in pieces of {size}"


async def test_a_message_that_came_whole_is_handed_over_at_once(
    client: WireClient, seen: list[tuple[bytes, bytes, bytes, bytes]]
) -> None:
    client._status = WireClient.CONNECTED
    reader = asyncio.StreamReader()
    client._ps.read_from(reader)
    reader.feed_data(b"MSG a.b 1 5\r\nhello\r\n")
    assert seen == MESSAGES[:1]


async def test_while_the_read_loop_is_busy_all_wait_for_it(
    client: WireClient, seen: list[tuple[bytes, bytes, bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    client._status = WireClient.CONNECTED
    handled, done = asyncio.Event(), asyncio.Event()

    async def handle(*_: object) -> None:
        handled.set()
        await done.wait()

    monkeypatch.setattr(client, "_process_msg", handle)
    reader = asyncio.StreamReader()
    client._ps.read_from(reader)
    busy = asyncio.create_task(client._ps.parse(b"MSG other 2 1\r\nx\r\nMSG a.b 1 5\r\nhello\r\n"))
    await handled.wait()
    reader.feed_data(b"MSG a.c 1 _INBOX.x.1 0\r\n\r\n")
    assert seen == []
    done.set()
    await busy
    await client._ps.parse(await reader.read(1 << 16))
    assert seen == MESSAGES[:2]


async def test_a_tap_that_fails_does_not_stop_the_reading(client: WireClient) -> None:
    later = []

    def fail(*_: bytes) -> None:
        raise RuntimeError("broken tap")

    client.taps[1] = fail
    client.taps[2] = lambda *message: later.append(message[3])
    await client._ps.parse(b"MSG a 1 1\r\nx\r\nMSG a 2 1\r\ny\r\n")
    assert later == [b"y"]


async def test_a_pong_for_a_flush_that_was_given_up_is_not_an_error(client: WireClient) -> None:
    given_up, waiting = asyncio.Future[bool](), asyncio.Future[bool]()
    given_up.cancel()
    client._pongs = [given_up, waiting]
    await client._ps.parse(b"PONG\r\nPONG\r\n")
    assert waiting.result() is True


async def test_what_is_not_nats_is_refused(client: WireClient) -> None:
    with pytest.raises(ProtocolError):
        await client._ps.parse(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_socket_that_is_closed_before_anybody_has_noticed_is_a_lost_connection() -> None:
    class Closed:
        def write(self, data: bytes) -> None:
            raise RuntimeError("unable to perform operation; the handler is closed")

    client = WireClient()
    client._status = WireClient.CONNECTED
    transport: Any = Closed()
    client._transport = transport
    with pytest.raises(Disconnected):
        client.send(b"PUB a 0\r\n\r\n")
    client.send_soon(b"PUB a 0\r\n\r\n")
    client.send_gathered()
