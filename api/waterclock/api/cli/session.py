"""A command's connection to the service, ids by their beginning, and files as artifacts."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from waterclock.api.cli.exits import WrongUsage
from waterclock.api.cli.output import note, progress
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.client.discovery import find
from waterclock.api.client.pace import SATURATED_PATIENCE
from waterclock.api.errors import NotFound
from waterclock.proto import methods, queries
from waterclock.proto.answers import Artifact
from waterclock.proto.commands import Upload, UploadEnd, UploadPart

T = TypeVar("T")

_PART = 1 << 20


@contextmanager
def connected(
    data: str | None, *, patience: float = 5.0, saturated_patience: float = SATURATED_PATIENCE
) -> Iterator[BlockingWire]:
    """The service that the settings name, else the one in the data directory."""
    found = find(data=data)
    wire = BlockingWire(
        found.url,
        token=found.token,
        inbox=found.inbox,
        tls=found.tls(),
        patience=patience,
        saturated_patience=saturated_patience,
        announce=_announce,
    )
    try:
        yield wire
    finally:
        wire.close()


def _announce(text: str) -> None:
    """In place of the progress that stands on the line."""
    progress("")
    note(text)


def with_job(wire: BlockingWire, text: str, action: Callable[[str], T]) -> T:
    """Does something with a job named by its id, or by a prefix that only one job's id has."""
    return _with(wire, "job", text, action)


def with_run(wire: BlockingWire, text: str, action: Callable[[str], T]) -> T:
    return _with(wire, "run", text, action)


def job_id_of(wire: BlockingWire, text: str) -> str:
    """The whole id of a job that is named by it, or by its beginning."""
    return with_job(wire, text, lambda id: wire.call(methods.JOBS_GET, queries.JobRef(job_id=id)).job_id)


def run_id_of(wire: BlockingWire, text: str) -> str:
    return with_run(wire, text, lambda id: wire.call(methods.RUNS_GET, queries.RunRef(run_id=id)).run_id)


def with_dependencies(wire: BlockingWire, fields: dict[str, Any]) -> None:
    """Turns what stands in `--after` into whole ids."""
    try:
        if "dependencies" in fields:
            fields["dependencies"] = [job_id_of(wire, text) for text in fields["dependencies"]]
    except NotFound as missing:
        raise WrongUsage(f"dependencies: {missing}") from None


def with_artifact(wire: BlockingWire, fields: dict[str, Any]) -> None:
    """A file named as the artifact of a definition is uploaded, and its digest put in its place."""
    named = fields.get("artifact")
    if named is not None and not named.startswith("sha256:"):
        fields["artifact"] = upload(wire, Path(named)).artifact


def upload(wire: BlockingWire, file: Path) -> Artifact:
    """In one request where it fits into one, else part by part."""
    upload_id, parts = secrets.token_hex(10), 0
    try:
        size = file.stat().st_size
        if 0 < size <= _PART:
            return wire.call(methods.ARTIFACTS_CREATE, Upload(data=file.read_bytes(), name=file.name))
        with file.open("rb") as content:
            while data := content.read(_PART):
                wire.call(methods.ARTIFACTS_PART, UploadPart(upload_id=upload_id, number=parts, data=data))
                parts += 1
                if size > 8 * _PART:
                    progress(f"uploading {file.name}: {parts * _PART / size:.0%}")
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror or error}") from None
    progress("")
    return wire.call(methods.ARTIFACTS_COMMIT, UploadEnd(upload_id=upload_id, parts=parts, name=file.name))


def _with(wire: BlockingWire, kind: queries.Kind, text: str, action: Callable[[str], T]) -> T:
    try:
        return action(text)
    except NotFound:
        found = wire.call(methods.IDS_FIND, queries.IdQuery(kind=kind, prefix=text)).ids
        if not found or found == [text]:
            raise
    if len(found) > 1:
        raise NotFound.because(f"{text} is short for several {kind}s: {', '.join(found[:3])}, …")
    return action(found[0])
