"""Uploading artifacts, in one piece or in parts."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from typing import IO

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Invalid, TooLarge
from waterclock.api.queries.artifacts import Upload, artifact_answer, find_upload, upload_key
from waterclock.api.registry import handles
from waterclock.core.runtime.clock import now_us
from waterclock.core.store.store import Missing, one_piece
from waterclock.proto import commands, methods
from waterclock.proto.answers import Artifact, Part

_MAX_BYTES = 4 << 30
_PIECE_BYTES = 1 << 20
_IN_MEMORY_BYTES = 4 << 20


@handles(methods.ARTIFACTS_CREATE)
async def create(app: Application, request: commands.Upload, caller: Caller) -> Artifact:
    return await store(app, one_piece(request.data), request.name, caller)


@handles(methods.ARTIFACTS_PART)
async def part(app: Application, request: commands.UploadPart, caller: Caller) -> Part:
    """Parts wait among the logs, where what nobody commits expires by itself. A repeat replaces the same part."""
    name = _part_name(caller, request.upload_id, request.number)
    return Part(number=request.number, size=await app.logs.put(name, one_piece(request.data)))


@handles(methods.ARTIFACTS_COMMIT)
async def commit(app: Application, request: commands.UploadEnd, caller: Caller) -> Artifact:
    names = [_part_name(caller, request.upload_id, number) for number in range(request.parts)]
    artifact = await store(app, _joined(app, names), request.name, caller)
    for name in names:
        await app.logs.delete(name)
    return artifact


async def store(app: Application, content: AsyncIterator[bytes], name: str, caller: Caller) -> Artifact:
    """Keep the content under its digest, which is known only at its end: until then it lies on disk."""
    digest, size = hashlib.sha256(), 0
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as spool:
        async for piece in content:
            size += len(piece)
            if size > _MAX_BYTES:
                raise TooLarge.because(f"an artifact may have {_MAX_BYTES} bytes")
            digest.update(piece)
            await asyncio.to_thread(spool.write, piece)
        artifact = f"sha256:{digest.hexdigest()}"
        there = await app.artifacts.size(artifact) == size
        if not there:
            spool.seek(0)
            await app.artifacts.put(artifact, _pieces(spool))
    upload = await find_upload(app, artifact, caller.namespace)
    if upload is None:
        upload = Upload(size=size, name=name, at=now_us(), actor=caller.actor)
        await app.control.put(upload_key(caller.namespace, artifact), msgspec.json.encode(upload))
        return artifact_answer(
            artifact, upload, created=True
        )  # whether others have it too is not theirs to know
    return artifact_answer(artifact, upload, created=False)


async def _pieces(spool: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(spool.read, _PIECE_BYTES):
        yield piece


async def _joined(app: Application, names: list[str]) -> AsyncIterator[bytes]:
    for number, name in enumerate(names):
        try:
            async for piece in app.logs.get(name):
                yield piece
        except Missing:
            raise Invalid.field("parts", f"part {number} was not uploaded") from None


def _part_name(caller: Caller, upload_id: str, number: int) -> str:
    return f"upload/{caller.namespace}/{upload_id}/{number}"
