"""Content in, the same content out, or a word that it is not."""

import os
from collections.abc import AsyncIterator

import pytest

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Damaged, NotFound
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.objects import CHUNK, Objects
from waterclock.core.jetstream.publisher import Publisher


@pytest.fixture
def store(connection: Connection, publisher: Publisher) -> Objects:
    return Objects(connection, publisher, "artifacts")


async def pieces(content: bytes, size: int = 50_000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def read(store: Objects, name: str) -> bytes:
    return b"".join([chunk async for chunk in store.get(name)])


@pytest.mark.parametrize("size", [0, 1, CHUNK, 20 * CHUNK + 1])
async def test_round_trip(store: Objects, size: int) -> None:
    content = os.urandom(size)
    await store.put("sha256:abc", pieces(content))
    assert await store.size("sha256:abc") == size
    assert await read(store, "sha256:abc") == content


async def test_what_is_not_there(store: Objects) -> None:
    assert await store.size("none") is None
    with pytest.raises(NotFound):
        await read(store, "none")
    await store.delete("none")


async def test_the_new_replaces_the_old_and_deleting_leaves_nothing(
    store: Objects, connection: Connection
) -> None:
    await store.put("a", pieces(b"x" * 3 * CHUNK))
    await store.put("a", pieces(b"y" * CHUNK))
    assert await read(store, "a") == b"y" * CHUNK
    assert (await stream_state(connection, "OBJ_artifacts")).messages == 2
    await store.delete("a")
    assert await store.size("a") is None
    assert (await stream_state(connection, "OBJ_artifacts")).messages == 0


async def test_many_small_ones_at_once(store: Objects) -> None:
    contents = {f"run-{number}": b"x" * number for number in range(100)}
    await store.put_small(contents)
    await store.put_small({"run-7": b"again"})
    assert await read(store, "run-99") == b"x" * 99
    assert await read(store, "run-0") == b""
    assert await read(store, "run-7") == b"again"
    assert {info.name: info.size for info in await store.list()} == {
        name: len(content) for name, content in (contents | {"run-7": b"again"}).items()
    }


async def test_content_that_breaks_off_leaves_the_old(store: Objects, connection: Connection) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"y" * 2 * CHUNK
        raise OSError("the sender went away")

    await store.put("a", pieces(b"x"))
    with pytest.raises(OSError, match="went away"):
        await store.put("a", broken())
    assert await read(store, "a") == b"x"
    assert (await stream_state(connection, "OBJ_artifacts")).messages == 2


async def test_missing_and_changed_chunks_are_noticed(
    store: Objects, connection: Connection, publisher: Publisher
) -> None:
    info = await store.put("a", pieces(b"x" * 3 * CHUNK))
    subject = f"$O.artifacts.C.{info.nuid}"
    await connection.api("STREAM.PURGE.OBJ_artifacts", {"filter": subject, "keep": 2})
    with pytest.raises(Damaged, match="2 of 3 chunks"):
        await read(store, "a")
    await publisher.publish(subject, b"z" * CHUNK)
    with pytest.raises(Damaged, match="digest"):
        await read(store, "a")


async def test_the_stock_client_reads_it(store: Objects, connection: Connection) -> None:
    content = os.urandom(3 * CHUNK + 5)
    await store.put("sha256:abc", pieces(content))
    stock = await connection.nc.jetstream().object_store("artifacts")
    assert (await stock.get("sha256:abc")).data == content
