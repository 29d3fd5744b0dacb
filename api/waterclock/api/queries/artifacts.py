"""Looking at artifacts. A namespace sees what it has uploaded; the bytes themselves are kept once, by their digest."""

from collections.abc import AsyncIterator

from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import NotFound
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.core.runtime.quarantine import read_record
from waterclock.proto import methods
from waterclock.proto.answers import Artifact, Page
from waterclock.proto.codec import decoder
from waterclock.proto.events import Instant
from waterclock.proto.queries import ArtifactRef, Nothing


class Upload(Struct, frozen=True, kw_only=True):
    """What is known of an artifact in one namespace, as the control bucket keeps it."""

    size: int
    name: str
    at: Instant
    actor: str


_decode = decoder(Upload)


@handles(methods.ARTIFACTS_LIST)
async def list_artifacts(app: Application, request: Nothing, caller: Caller) -> Page[Artifact]:
    entries = await app.control.scan(upload_key(caller.namespace, "*"))
    found = [
        artifact_answer(f"sha256:{entry.key.rpartition('.')[2]}", upload)
        for entry in entries
        if (upload := read_record(_decode, app.control.stream, entry, None)) is not None
    ]
    return Page(items=sorted(found, key=lambda artifact: str(artifact.created_at), reverse=True))


@handles(methods.ARTIFACTS_GET)
async def get(app: Application, request: ArtifactRef, caller: Caller) -> Artifact:
    artifact = f"sha256:{request.digest.removeprefix('sha256:')}"
    upload = await find_upload(app, artifact, caller.namespace)
    if upload is None:
        raise NotFound.because(f"there is no artifact {artifact}")
    return artifact_answer(artifact, upload)


def content(app: Application, artifact: Artifact) -> AsyncIterator[bytes]:
    return app.artifacts.get(artifact.artifact)


async def find_upload(app: Application, artifact: str, namespace: str) -> Upload | None:
    entry = await app.control.get(upload_key(namespace, artifact))
    return None if entry is None else read_record(_decode, app.control.stream, entry, None)


def upload_key(namespace: str, artifact: str) -> str:
    return f"artifact.{namespace}.{artifact.removeprefix('sha256:')}"


def artifact_answer(artifact: str, upload: Upload, *, created: bool = True) -> Artifact:
    return Artifact(
        artifact=artifact,
        size=upload.size,
        name=upload.name,
        created_at=datetime_of(upload.at),
        created=created,
    )
