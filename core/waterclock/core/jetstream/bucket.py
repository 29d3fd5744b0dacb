"""Key-value buckets by raw publishes: an expired or deleted key is absent, and its marker is what to compare with."""

from collections.abc import Mapping

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.publisher import Expect, Message, Publisher
from waterclock.core.jetstream.pull import Pull
from waterclock.core.jetstream.reader import last_message, stream_state
from waterclock.proto import names

_BATCH = 1000
_TOMBSTONE = {"KV-Operation": "DEL", "Nats-TTL": "10s"}


class Entry(Struct, frozen=True, kw_only=True):
    key: str
    value: bytes
    revision: int


class Bucket:
    def __init__(self, connection: Connection, publisher: Publisher, name: str) -> None:
        self.name = name
        self.stream = names.kv_stream(name)
        self._connection = connection
        self._publisher = publisher
        self._prefix = names.kv_subject(name, "")

    async def get(self, key: str) -> Entry | None:
        stored = await last_message(self._connection, self.stream, self._prefix + key)
        if stored is None or stored.is_marker:
            return None
        return Entry(key=key, value=stored.data, revision=stored.sequence)

    async def put(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        return await self._publisher.publish(self._prefix + key, value, ttl_seconds=ttl)

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        try:
            return await self.update(key, value, 0, ttl=ttl)
        except Conflict:
            stored = await last_message(self._connection, self.stream, self._prefix + key)
            if stored is not None and not stored.is_marker:
                raise
            return await self.update(key, value, 0 if stored is None else stored.sequence, ttl=ttl)

    async def update(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int:
        return await self._publisher.publish(
            self._prefix + key, value, expect=Expect(last_subject_sequence=revision), ttl_seconds=ttl
        )

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        expect = None if revision is None else Expect(last_subject_sequence=revision)
        await self._publisher.publish(self._prefix + key, b"", expect=expect, headers=_TOMBSTONE)

    async def put_many(self, entries: Mapping[str, bytes | None]) -> None:
        messages = [
            Message(
                subject=self._prefix + key, data=value or b"", headers=_TOMBSTONE if value is None else None
            )
            for key, value in entries.items()
        ]
        for start in range(0, len(messages), _BATCH):
            await self._publisher.publish_batch(messages[start : start + _BATCH])

    async def purge(self, pattern: str) -> None:
        await self._connection.api(f"STREAM.PURGE.{self.stream}", {"filter": self._prefix + pattern})

    async def scan(self, pattern: str) -> list[Entry]:
        limit = (await stream_state(self._connection, self.stream)).last_seq
        found: dict[str, Entry] = {}
        async with Pull.ordered(
            self._connection, self.stream, [self._prefix + pattern], after_sequence=0
        ) as pull:
            while pull.pending and pull.sequence < limit:
                for delivery in await pull.next():
                    key = delivery.subject[len(self._prefix) :]
                    if delivery.is_marker:
                        found.pop(key, None)
                    else:
                        found[key] = Entry(key=key, value=delivery.data, revision=delivery.sequence)
        return list(found.values())
