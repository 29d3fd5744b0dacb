"""The store on S3, or on any service that speaks it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiobotocore.session import get_session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from waterclock.core.store.store import CHUNK, Missing, Stored, StoreError

_PART = 8 * 1024 * 1024
"""S3 takes no smaller part but the last; one object of up to 10,000 of them is 80 GB."""
_BEYOND = ("InvalidRange", "416")
"""It has not so many bytes."""
_ABSENT = ("404", "NoSuchKey", "NotFound")


class S3Store:
    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, kind: str, *, endpoint: str | None = None, ca: Path | None = None
    ) -> AsyncIterator["S3Store"]:
        """`s3://bucket/prefix`; credentials and region are found as by every AWS tool.

        `ca`: who signed the service's certificate, if not one of the usual authorities.
        """
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        prefix = "/".join(part for part in (prefix.strip("/"), kind) if part) + "/"
        config = Config(
            retries={"max_attempts": 3, "mode": "standard"},
            connect_timeout=5,
            s3={"addressing_style": "path"} if endpoint else {},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        trusted = None if ca is None else str(ca)
        async with get_session().create_client(
            "s3", endpoint_url=endpoint, config=config, verify=trusted
        ) as client:
            yield cls(client, bucket, prefix)

    async def ensure_bucket(self) -> None:
        with _as_store_error(f"cannot make the bucket {self._bucket}"):
            try:
                await self._client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                if _code(error) not in _ABSENT:
                    raise
                await self._client.create_bucket(Bucket=self._bucket)

    async def put(self, name: str, content: AsyncIterator[bytes]) -> int:
        key = self._prefix + name
        parts = _parts(content)
        first = await anext(parts)
        with _as_store_error(f"cannot keep {name}"):
            if len(first) < _PART:
                await self._client.put_object(Bucket=self._bucket, Key=key, Body=first)
                return len(first)
        return await self._put_in_parts(name, key, first, parts)

    async def _put_in_parts(self, name: str, key: str, first: bytes, rest: AsyncIterator[bytes]) -> int:
        with _as_store_error(f"cannot keep {name}"):
            upload = await self._client.create_multipart_upload(Bucket=self._bucket, Key=key)
        whole = {"Bucket": self._bucket, "Key": key, "UploadId": upload["UploadId"]}
        done: list[dict[str, Any]] = []
        size = 0
        try:
            part = first
            while part:
                number = len(done) + 1
                with _as_store_error(f"cannot keep {name}"):
                    answer = await self._client.upload_part(**whole, PartNumber=number, Body=part)
                done.append({"PartNumber": number, "ETag": answer["ETag"]})
                size += len(part)
                part = await anext(rest, b"")
            with _as_store_error(f"cannot keep {name}"):
                await self._client.complete_multipart_upload(**whole, MultipartUpload={"Parts": done})
        except BaseException:
            await self._client.abort_multipart_upload(**whole)
            raise
        return size

    async def get(self, name: str, start: int = 0) -> AsyncIterator[bytes]:
        part = {"Range": f"bytes={start}-"} if start else {}
        with _as_store_error(f"cannot read {name}"):
            try:
                answer = await self._client.get_object(Bucket=self._bucket, Key=self._prefix + name, **part)
            except ClientError as error:
                if _code(error) in _BEYOND:
                    return
                if _code(error) in _ABSENT:
                    raise Missing(name) from error
                raise
            async with answer["Body"] as body:
                async for chunk in body.iter_chunks(CHUNK):
                    yield chunk

    async def size(self, name: str) -> int | None:
        with _as_store_error(f"cannot look up {name}"):
            try:
                answer = await self._client.head_object(Bucket=self._bucket, Key=self._prefix + name)
            except ClientError as error:
                if _code(error) in _ABSENT:
                    return None
                raise
            return int(answer["ContentLength"])

    async def delete(self, name: str) -> None:
        with _as_store_error(f"cannot delete {name}"):
            await self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    async def check(self) -> None:
        with _as_store_error(f"the bucket {self._bucket} cannot be used"):
            await self._client.head_bucket(Bucket=self._bucket)

    async def list(self, prefix: str = "") -> AsyncIterator[Stored]:
        with _as_store_error("cannot list"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            async for page in pages:
                for found in page.get("Contents", ()):
                    yield Stored(name=found["Key"].removeprefix(self._prefix), size=found["Size"])


async def _parts(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in parts of one size; the last is shorter, and there is always one."""
    buffer = bytearray()
    async for piece in content:
        buffer += piece
        while len(buffer) >= _PART:
            yield bytes(buffer[:_PART])
            del buffer[:_PART]
    yield bytes(buffer)


@contextmanager
def _as_store_error(what: str) -> Iterator[None]:
    """Everything that goes wrong with S3 is a StoreError."""
    try:
        yield
    except (BotoCoreError, ClientError, OSError) as error:
        raise StoreError(f"{what}: {error}") from error


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
