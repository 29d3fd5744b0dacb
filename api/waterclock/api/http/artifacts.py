"""Artifacts over HTTP: the bytes themselves, streamed both ways."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.response import Stream

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.commands.artifacts import store
from waterclock.api.dispatch import answer, outages_as_refusals
from waterclock.api.queries.artifacts import content
from waterclock.proto import methods
from waterclock.proto.answers import Artifact
from waterclock.proto.queries import ArtifactRef

AnyRequest = Request[Any, Any, Any]


async def upload(app: Application, http: AnyRequest, caller: Caller) -> Artifact:
    caller.must(methods.ARTIFACTS_CREATE)
    name = http.query_params.get("name", "")[:256]
    with outages_as_refusals():
        return await store(app, http.stream(), name, caller)


async def download(app: Application, http: AnyRequest, asked: ArtifactRef, caller: Caller) -> Response[Any]:
    artifact = await answer(app, methods.ARTIFACTS_GET, asked, caller)
    if "application/json" in http.headers.get("accept", ""):
        return Response(msgspec.json.encode(artifact), media_type="application/json")
    body = _nothing() if http.method == "HEAD" else content(app, artifact)
    headers = {"Content-Length": str(artifact.size), "ETag": f'"{artifact.artifact}"'}
    return Stream(body, media_type="application/octet-stream", headers=headers)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
