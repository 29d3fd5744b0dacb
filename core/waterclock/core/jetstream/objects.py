"""A content store on JetStream: chunked, digest checked, in the format of the stock object store."""

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from secrets import token_hex

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, NotFound
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull import Pull
from waterclock.core.jetstream.reader import last_message

CHUNK = 128 * 1024


class ObjectInfo(Struct, frozen=True, kw_only=True):
    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False


class Objects:
    def __init__(self, connection: Connection, publisher: Publisher, bucket: str) -> None:
        self._connection = connection
        self._publisher = publisher
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"

    async def put(self, name: str, content: AsyncIterator[bytes]) -> ObjectInfo:
        nuid = token_hex(11)
        digest, size, chunks = sha256(), 0, 0
        async for chunk in _even(content):
            digest.update(chunk)
            size += len(chunk)
            chunks += 1
            await self._publisher.publish(f"$O.{self._bucket}.C.{nuid}", chunk)
        info = ObjectInfo(
            name=name,
            bucket=self._bucket,
            nuid=nuid,
            size=size,
            chunks=chunks,
            digest=_spelled(digest.digest()),
        )
        await self._publisher.publish(self._meta(name), msgspec.json.encode(info), rollup=True)
        return info

    async def info(self, name: str) -> ObjectInfo | None:
        stored = await last_message(self._connection, self._stream, self._meta(name))
        if stored is None:
            return None
        info = msgspec.json.decode(stored.data, type=ObjectInfo)
        return None if info.deleted else info

    async def size(self, name: str) -> int | None:
        info = await self.info(name)
        return None if info is None else info.size

    async def get(self, name: str) -> AsyncIterator[bytes]:
        info = await self.info(name)
        if info is None:
            raise NotFound(name)
        digest, left = sha256(), info.chunks
        subject = f"$O.{self._bucket}.C.{info.nuid}"
        if left:
            async with Pull.ordered(
                self._connection, self._stream, [subject], after_sequence=0, batch=16
            ) as pull:
                while left:
                    for delivery in await pull.next():
                        digest.update(delivery.data)
                        left -= 1
                        yield delivery.data
        if _spelled(digest.digest()) != info.digest:
            raise LogError(f"{name} is damaged: its digest differs")

    async def delete(self, name: str) -> None:
        info = await self.info(name)
        if info is None:
            return
        await self._connection.api(f"STREAM.PURGE.{self._stream}", {"filter": self._meta(name)})
        await self._connection.api(
            f"STREAM.PURGE.{self._stream}", {"filter": f"$O.{self._bucket}.C.{info.nuid}"}
        )

    def _meta(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"


async def _even(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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
