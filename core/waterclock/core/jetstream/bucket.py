"""Key-value buckets by raw publishes, since nats-py's own cannot hold a key with a time to live.

A key that was deleted or has expired may leave a marker behind. A marker counts as absence, and a creation over
it compares with the marker's sequence.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.messages import Stored, last_message, next_message
from waterclock.core.jetstream.publisher import MAX_BATCH, Expect, Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.proto import names

_TOMBSTONE = {"KV-Operation": "DEL"}
_PASSING_TOMBSTONE = _TOMBSTONE | {"Nats-TTL": "10s"}
"""Leaves by itself: a dead key costs the server as much memory as a live one. Only for a key that would have left by
itself, too, or that does no harm when it is there again. A server that is killed finds what a tombstone has replaced
in its files again, and once the tombstone has left nothing tells it that this was deleted.
"""

_CREATE_TRIES = 5
_FEW = 3


class Entry(Struct, frozen=True, kw_only=True):
    key: str
    value: bytes
    revision: int

    @property
    def data(self) -> bytes:
        return self.value

    @property
    def sequence(self) -> int:
        return self.revision

    @property
    def subject(self) -> str:
        return self.key


class Bucket:
    def __init__(self, connection: Connection, publisher: Publisher, name: str) -> None:
        self.name = name
        self.stream = names.kv_stream(name)
        self._connection = connection
        self._publisher = publisher
        self._prefix = names.kv_subject(name, "")

    async def get(self, key: str) -> Entry | None:
        stored = await self._last(key)
        if stored is None or stored.is_absent:
            return None
        return Entry(key=key, value=stored.data, revision=stored.sequence)

    async def put(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        return await self._publisher.publish(self._subject(key), value, ttl_seconds=ttl)

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Conflict if the key lives."""
        expected = 0
        for _ in range(_CREATE_TRIES):
            try:
                return await self.update(key, value, expected, ttl=ttl)
            except Conflict:
                stored = await self._last(key)
                if stored is not None and not stored.is_absent:
                    raise
                expected = 0 if stored is None else stored.sequence
        raise Conflict(f"{key} in {self.name} keeps changing")

    async def update(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int:
        """Conflict unless the key is at this revision. Without `ttl` it no longer expires."""
        return await self._publisher.publish(
            self._subject(key), value, expect=Expect(last_subject_sequence=revision), ttl_seconds=ttl
        )

    async def delete(self, key: str) -> None:
        """For good. Those who follow the bucket see it; the tombstone stays."""
        await self._publisher.publish(self._subject(key), b"", headers=_TOMBSTONE)

    async def release(self, key: str, *, revision: int | None = None) -> None:
        """Delete a key that has a time to live before its time. Conflict unless it is at this revision, if given."""
        expect = None if revision is None else Expect(last_subject_sequence=revision)
        await self._publisher.publish(self._subject(key), b"", expect=expect, headers=_PASSING_TOMBSTONE)

    async def put_many(self, entries: Mapping[str, bytes]) -> None:
        """Write in atomic batches of a thousand, in the order given."""
        messages = [Message(subject=self._subject(key), data=value) for key, value in entries.items()]
        for start in range(0, len(messages), MAX_BATCH):
            await self._publisher.publish_batch(messages[start : start + MAX_BATCH])

    async def change_fenced(self, entries: Mapping[str, bytes | None], fence: Expect) -> int:
        """Write and remove (None), many in atomic batches of a thousand, unless the fence has moved: that is a
        Conflict, of all that comes after.

        What is removed is replaced by a tombstone that leaves by itself: a purge cannot be fenced, and is a call for
        each key. So only for keys that may come back when the server is killed. Returns the sequence of the last
        message.
        """
        messages = [
            Message(subject=self._subject(key), data=b"", headers=_PASSING_TOMBSTONE)
            if value is None
            else Message(subject=self._subject(key), data=value)
            for key, value in entries.items()
        ]
        if len(messages) <= _FEW:  # an atomic batch costs the server as much as five messages, and then these
            publish = self._publisher.publish
            sent = [
                publish(message.subject, message.data, headers=message.headers, expect=fence)
                for message in messages
            ]
            return max(await asyncio.gather(*sent), default=0)
        last = 0
        for start in range(0, len(messages), MAX_BATCH):
            last = await self._publisher.publish_batch(messages[start : start + MAX_BATCH], expect=fence)
        return last

    async def purge(self, pattern: str, *, through: int | None = None) -> None:
        """Remove every key under a pattern, without markers; only what is not after a sequence, if given."""
        query: dict[str, str | int] = {"filter": self._subject(pattern)}
        if through is not None:
            query["seq"] = through + 1
        await self._connection.api(f"STREAM.PURGE.{self.stream}", query)

    async def keys(self, pattern: str) -> list[str]:
        """The keys under a pattern, markers of deleted ones included; for patterns that match few."""
        query = {"subjects_filter": self._subject(pattern)}
        info = await self._connection.api(f"STREAM.INFO.{self.stream}", query)
        return [subject[len(self._prefix) :] for subject in info["state"].get("subjects") or {}]

    async def first(self, pattern: str, most_bytes: int) -> list[Entry]:
        """The first live entries under a pattern, at least one if there is any."""
        found: list[Entry] = []
        size = after = 0
        while size < most_bytes:
            stored = await next_message(self._connection, self.stream, self._subject(pattern), after)
            if stored is None:
                break
            after = stored.sequence
            if not stored.is_absent:
                key = stored.subject[len(self._prefix) :]
                found.append(Entry(key=key, value=stored.data, revision=stored.sequence))
                size += len(stored.data)
        return found

    async def scan(self, pattern: str) -> list[Entry]:
        """The live entries under a pattern (`*` for a part of the key, `>` for the rest of it).

        The bucket keeps one message a key, so reading the stream once from its beginning shows each key as it is,
        or as it became while we read. The first few are asked for one by one: mostly that is all, and a consumer costs
        the server more than all of them.
        """
        found: dict[str, Entry] = {}
        after = 0
        for _ in range(_FEW):
            stored = await next_message(self._connection, self.stream, self._subject(pattern), after)
            if stored is None:
                return list(found.values())
            self._note(found, stored.subject, stored.data, stored.sequence, is_absent=stored.is_absent)
            after = stored.sequence
        source = Pull.ordered(self._connection, self.stream, [self._subject(pattern)], after_sequence=after)
        async with source as pull:
            async for deliveries in pull.backlog():
                for delivery in deliveries:
                    absent = delivery.is_absent
                    self._note(found, delivery.subject, delivery.data, delivery.sequence, is_absent=absent)
        return list(found.values())

    async def walk(self, pattern: str) -> list[Entry]:
        """As `scan`, by single questions only: for patterns that match few, and for those who may make no consumer."""
        found: dict[str, Entry] = {}
        after = 0
        while True:
            stored = await next_message(self._connection, self.stream, self._subject(pattern), after)
            if stored is None:
                return list(found.values())
            self._note(found, stored.subject, stored.data, stored.sequence, is_absent=stored.is_absent)
            after = stored.sequence

    def _note(
        self, found: dict[str, Entry], subject: str, data: bytes, sequence: int, *, is_absent: bool
    ) -> None:
        key = subject[len(self._prefix) :]
        if is_absent:
            found.pop(key, None)
        else:
            found[key] = Entry(key=key, value=data, revision=sequence)

    async def _last(self, key: str) -> Stored | None:
        return await last_message(self._connection, self.stream, self._subject(key))

    def _subject(self, key: str) -> str:
        return self._prefix + key
