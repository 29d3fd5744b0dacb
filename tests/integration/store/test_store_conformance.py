"""One suite for every store: what callers may rely on, whatever is behind."""

import os
from collections.abc import AsyncIterator
from hashlib import sha256

import pytest

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.ports import reserved_port
from waterclock.core.store.jetstream_store import JetStreamStore
from waterclock.core.store.s3 import S3Store
from waterclock.core.store.store import Missing, Store, StoreError, one_piece
from waterclock.proto import names

MEGABYTE = 1024 * 1024


@pytest.fixture(params=["embedded", "embedded logs", "s3"])
async def store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, nats_url: str, s3_endpoint: str
) -> AsyncIterator[Store]:
    if request.param == "s3":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        prefix = sha256(request.node.nodeid.encode()).hexdigest()
        async with S3Store.open(f"s3://waterclock/{prefix}", "artifacts", endpoint=s3_endpoint) as s3:
            await s3.ensure_bucket()
            yield s3
    else:
        async with Connection.open(nats_url, name="store") as connection:
            await ensure_streams(connection, Layout())
            kind = names.LOGS if request.param == "embedded logs" else names.ARTIFACTS
            yield JetStreamStore(connection, Publisher(connection), kind)


async def read(store: Store, name: str) -> bytes:
    return b"".join([piece async for piece in store.get(name)])


@pytest.mark.parametrize("size", [0, 1, 128 * 1024, 128 * 1024 + 1, 20 * MEGABYTE + 3])
async def test_what_is_put_is_got(store: Store, size: int) -> None:
    content = os.urandom(size)
    assert await store.put("a name", one_piece(content)) == size
    assert await store.size("a name") == size
    assert await read(store, "a name") == content


async def test_pieces_of_any_size_make_one_object(store: Store) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for length in (1, 0, 300_000, 7):
            yield bytes([length % 251]) * length

    assert await store.put("pieces", pieces()) == 300_008
    assert len(await read(store, "pieces")) == 300_008


@pytest.mark.parametrize("name", ["backup@20261116T030000Z/1", "sha256:ab", "naïve name ☃", "a.b>c*d"])
async def test_names_are_any_text(store: Store, name: str) -> None:
    await store.put(name, one_piece(name.encode()))
    assert await read(store, name) == name.encode()


async def test_an_object_is_replaced_whole(store: Store) -> None:
    await store.put("x", one_piece(b"long and old"))
    await store.put("x", one_piece(b"new"))
    assert await read(store, "x") == b"new"
    assert await store.size("x") == 3


async def test_a_missing_object_is_missing(store: Store) -> None:
    assert await store.size("nothing") is None
    with pytest.raises(Missing):
        await read(store, "nothing")
    await store.delete("nothing")


async def test_a_deleted_object_is_missing(store: Store) -> None:
    await store.put("x", one_piece(b"content"))
    await store.delete("x")
    assert await store.size("x") is None
    with pytest.raises(Missing):
        await read(store, "x")


@pytest.mark.parametrize("size", [10, 9 * MEGABYTE])
async def test_content_that_fails_leaves_nothing(store: Store, size: int) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x" * size
        raise ConnectionError("the uploader went away")

    with pytest.raises(ConnectionError):
        await store.put("x", failing())
    assert await store.size("x") is None
    assert [found.name async for found in store.list()] == []


async def test_objects_are_listed_by_the_beginning_of_their_names(store: Store) -> None:
    for name in ("job@1/1", "job@1/2", "job@2/1"):
        await store.put(name, one_piece(name.encode()))
    await store.delete("job@1/2")
    assert sorted([found.name async for found in store.list()]) == ["job@1/1", "job@2/1"]
    assert [(found.name, found.size) async for found in store.list("job@1/")] == [("job@1/1", 7)]


async def test_a_store_that_can_be_used_passes_its_check(store: Store) -> None:
    await store.check()


async def test_a_store_that_is_away_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with reserved_port() as nobody:
        async with S3Store.open("s3://waterclock", "logs", endpoint=f"http://127.0.0.1:{nobody}") as store:
            with pytest.raises(StoreError, match="cannot keep"):
                await store.put("x", one_piece(b"x"))
            with pytest.raises(StoreError, match="cannot be used"):
                await store.check()
