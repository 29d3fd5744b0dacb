"""Uploading artifacts, in one piece or in parts, and looking at them."""

from collections.abc import AsyncIterator

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.errors import Invalid
from waterclock.api.registry import handles
from waterclock.core.store.store import Missing, one_piece
from waterclock.proto import methods
from waterclock.proto.answers import Artifact, Page, Part
from waterclock.proto.commands import Upload, UploadEnd, UploadPart
from waterclock.proto.queries import ArtifactRef, Nothing


@handles(methods.ARTIFACTS_CREATE)
async def create(app: Application, request: Upload, caller: Caller) -> Artifact:
    return await receive(app, one_piece(request.data), request.name, caller)


@handles(methods.ARTIFACTS_PART)
async def part(app: Application, request: UploadPart, caller: Caller) -> Part:
    """Parts wait among the logs, where what nobody commits expires by itself. A repeat replaces the same part."""
    name = _part(caller, request.upload_id, request.number)
    return Part(number=request.number, size=await app.logs.put(name, one_piece(request.data)))


@handles(methods.ARTIFACTS_COMMIT)
async def commit(app: Application, request: UploadEnd, caller: Caller) -> Artifact:
    names = [_part(caller, request.upload_id, number) for number in range(request.parts)]
    artifact = await receive(app, _joined(app, names), request.name, caller)
    for name in names:
        await app.logs.delete(name)
    return artifact


@handles(methods.ARTIFACTS_LIST)
async def list_artifacts(app: Application, request: Nothing, caller: Caller) -> Page[Artifact]:
    return Page(items=await app.shelf.list(caller.namespace))


@handles(methods.ARTIFACTS_GET)
async def get(app: Application, request: ArtifactRef, caller: Caller) -> Artifact:
    return await app.shelf.find(request.digest, caller.namespace)


async def receive(app: Application, content: AsyncIterator[bytes], name: str, caller: Caller) -> Artifact:
    return await app.shelf.put(content, namespace=caller.namespace, name=name, actor=caller.actor)


async def _joined(app: Application, names: list[str]) -> AsyncIterator[bytes]:
    for number, name in enumerate(names):
        try:
            async for piece in app.logs.get(name):
                yield piece
        except Missing:
            raise Invalid.field("parts", f"part {number} was not uploaded") from None


def _part(caller: Caller, upload_id: str, number: int) -> str:
    return f"upload/{caller.namespace}/{upload_id}/{number}"
