"""What was deleted stays deleted, also when the server is killed after the tombstone has left."""

import pytest

from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream import bucket as buckets
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names


async def test_a_deleted_key_does_not_come_back_after_a_kill(
    nats_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(buckets._PASSING_TOMBSTONE, "Nats-TTL", "1s")
    async with Connection.open(nats_server.url, name="test") as connection:
        await ensure_streams(connection, Layout(partitions=2))
        bucket = Bucket(connection, Publisher(connection), names.TIMING)
        await bucket.put_many({"0.kept": b"1", "0.deleted": b"1", "0.removed": b"1"})
        await bucket.put("0.released", b"1", ttl=3)
        await bucket.delete("0.deleted")
        await bucket.purge("0.removed")
        await bucket.release("0.released")
        # What is left: the one that is kept, and the tombstone that stays.
        await eventually(
            lambda: stream_state(connection, bucket.stream), wanted=lambda state: state.messages == 2
        )
        nats_server.kill()
        nats_server.start()
        await eventually(
            lambda: stream_state(connection, bucket.stream), wanted=lambda state: state.messages == 2
        )
        assert [entry.key for entry in await bucket.scan("0.*")] == ["0.kept"]
        assert await bucket.get("0.deleted") is None


async def test_a_key_whose_time_was_over_does_not_come_back_after_a_kill(nats_server: Server) -> None:
    """The server's own removals are not in its files either: what had expired it finds again, and keeps for ever."""
    async with Connection.open(nats_server.url, name="test") as connection:
        await ensure_streams(connection, Layout(partitions=2))
        bucket = Bucket(connection, Publisher(connection), names.TIMING)
        for _ in range(3):
            await bucket.put("0.dead", b"1", ttl=1)
        await bucket.put("0.kept", b"1")
        await eventually(
            lambda: stream_state(connection, bucket.stream), wanted=lambda state: state.messages == 1
        )
        nats_server.kill()
        nats_server.start()
        await eventually(lambda: bucket.get("0.dead"), wanted=lambda entry: entry is None)
        assert [entry.key for entry in await bucket.scan("0.*")] == ["0.kept"]
        await bucket.create("0.dead", b"2", ttl=60)
        entry = await bucket.get("0.dead")
        assert entry is not None
        assert entry.value == b"2"
