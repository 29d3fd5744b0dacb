"""A content store on JetStream, in the format of the stock object store: chunks under an id, and one record."""

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Damaged, LogError, NotFound
from waterclock.core.jetstream.messages import last_message, message_at, next_message
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.proto import names
from waterclock.proto.codec import decoder

CHUNK = 128 * 1024
_MOST_SEQUENCES = 8192
"""Of an object of a gigabyte. They are in its record, which is read for its size alone."""


class ObjectInfo(Struct, frozen=True, kw_only=True):
    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    sequences: list[int] = []
    """Where in the stream each chunk is, so that one can be read without those before it. Absent from objects of one
    chunk, and from those of the version before."""


_encode = msgspec.json.Encoder().encode
_decode = decoder(ObjectInfo)


class Objects:
    """`tidy`: what is replaced or abandoned is removed at once, not left to the stream's age limit."""

    def __init__(
        self, connection: Connection, publisher: Publisher, bucket: str, *, tidy: bool = True
    ) -> None:
        self._tidy = tidy
        self._connection = connection
        self._publisher = publisher
        self._bucket = bucket
        self._stream = names.object_stream(bucket)

    async def put(self, name: str, content: AsyncIterator[bytes]) -> ObjectInfo:
        """Store the content under the name, in place of what was there. It shows once it is complete."""
        former = await self.info(name) if self._tidy else None
        nuid, digest, size, chunks = token_hex(11), sha256(), 0, 0
        sequences: list[int] = []
        try:
            async for chunk in _even(content):
                sequences.append(await self._publisher.publish(self._chunks(nuid), chunk))
                digest.update(chunk)
                size += len(chunk)
                chunks += 1
            spelled = _spelled(digest.digest())
            info = ObjectInfo(
                name=name,
                bucket=self._bucket,
                nuid=nuid,
                size=size,
                chunks=chunks,
                digest=spelled,
                sequences=sequences if 1 < chunks <= _MOST_SEQUENCES else [],
            )
            await self._publisher.publish(self._record(name), _encode(info), rollup=True)
        except BaseException:
            if self._tidy:
                with suppress(LogError):
                    await self._purge(self._chunks(nuid))
            raise
        if former is not None:
            await self._purge(self._chunks(former.nuid))
        return info

    async def put_small(self, contents: Mapping[str, bytes]) -> None:
        """Store many objects of one chunk each in one atomic batch, which is one sync to disk.

        Unlike `put`, leaves the chunks of what it replaces to the stream's age limit: it saves a question each.
        """
        messages = []
        for name, content in contents.items():
            nuid = token_hex(11)
            info = ObjectInfo(
                name=name,
                bucket=self._bucket,
                nuid=nuid,
                size=len(content),
                chunks=1 if content else 0,
                digest=_spelled(sha256(content).digest()),
            )
            if content:
                messages.append(Message(subject=self._chunks(nuid), data=content))
            messages.append(
                Message(subject=self._record(name), data=_encode(info), headers={"Nats-Rollup": "sub"})
            )
        await self._publisher.publish_batch(messages)

    async def get(self, name: str, start: int = 0) -> AsyncIterator[bytes]:
        """The content from a byte on, chunk by chunk; NotFound, or Damaged after the last chunk at the latest. Where
        the beginning is left out, nobody sees whether that is damaged."""
        info = await self.info(name)
        if info is None:
            raise NotFound(f"no object {name} in {self._bucket}")
        if start >= CHUNK and len(info.sequences) == info.chunks:
            async for data in self._from_chunk(info, start // CHUNK):
                yield data[start % CHUNK :] if start else data
                start = 0
            return
        async for data in self._whole(info):
            if len(data) > start:
                yield data[start:] if start else data
            start = max(0, start - len(data))

    async def _from_chunk(self, info: ObjectInfo, first: int) -> AsyncIterator[bytes]:
        for sequence in info.sequences[first:]:
            chunk = await message_at(self._connection, self._stream, sequence)
            if chunk is None or chunk.subject != self._chunks(info.nuid):
                raise Damaged(f"{info.name} lacks a chunk")
            yield chunk.data

    async def _whole(self, info: ObjectInfo) -> AsyncIterator[bytes]:
        name = info.name
        digest, chunks, after = sha256(), 0, 0
        while chunks < info.chunks:
            # One by one: whoever may make a consumer may have its messages sent anywhere, and an executor must not.
            chunk = await next_message(self._connection, self._stream, self._chunks(info.nuid), after)
            if chunk is None:
                break
            after = chunk.sequence
            digest.update(chunk.data)
            chunks += 1
            yield chunk.data
        if chunks != info.chunks:
            raise Damaged(f"{name} has {chunks} of {info.chunks} chunks")
        if _spelled(digest.digest()) != info.digest:
            raise Damaged(f"the digest of {name} differs")

    async def info(self, name: str) -> ObjectInfo | None:
        stored = await last_message(self._connection, self._stream, self._record(name))
        if stored is None or stored.is_absent:
            return None
        info = _decode(stored.data)
        return None if info.deleted else info

    async def size(self, name: str) -> int | None:
        info = await self.info(name)
        return None if info is None else info.size

    async def list(self) -> list[ObjectInfo]:
        """Every object, in the order in which they came."""
        found: dict[str, ObjectInfo] = {}
        records = f"$O.{self._bucket}.M.>"
        async with Pull.ordered(self._connection, self._stream, [records], after_sequence=0) as pull:
            async for deliveries in pull.backlog():
                for delivery in deliveries:
                    if not delivery.is_absent:
                        info = _decode(delivery.data)
                        found[info.name] = info
        return [info for info in found.values() if not info.deleted]

    async def delete(self, name: str) -> None:
        info = await self.info(name)
        if info is not None:
            await self._purge(self._record(name))
            await self._purge(self._chunks(info.nuid))

    async def _purge(self, subject: str) -> None:
        await self._connection.api(f"STREAM.PURGE.{self._stream}", {"filter": subject})

    def _chunks(self, nuid: str) -> str:
        return f"$O.{self._bucket}.C.{nuid}"

    def _record(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"


async def _even(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in chunks of one size."""
    buffer = bytearray()
    async for part in content:
        buffer += part
        while len(buffer) >= CHUNK:
            yield bytes(buffer[:CHUNK])
            del buffer[:CHUNK]
    if buffer:
        yield bytes(buffer)


def _spelled(digest: bytes) -> str:
    return f"SHA-256={urlsafe_b64encode(digest).decode()}"
