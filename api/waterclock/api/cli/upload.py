"""Files as artifacts, part by part."""

import secrets
from pathlib import Path
from typing import Any

from waterclock.api.cli.exits import Wrong
from waterclock.api.cli.output import progress
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.proto import methods
from waterclock.proto.answers import Artifact
from waterclock.proto.queries import UploadEnd, UploadPart

_PART = 1 << 20


def with_artifact(wire: BlockingWire, fields: dict[str, Any]) -> None:
    """A file named as the artifact of a definition is uploaded, and its digest put in its place."""
    named = fields.get("artifact")
    if named is not None and not named.startswith("sha256:"):
        fields["artifact"] = upload(wire, Path(named)).artifact


def upload(wire: BlockingWire, file: Path) -> Artifact:
    upload_id = secrets.token_hex(10)
    parts = 0
    try:
        size = file.stat().st_size
        with file.open("rb") as content:
            while data := content.read(_PART):
                wire.call(methods.ARTIFACTS_PART, UploadPart(upload_id=upload_id, number=parts, data=data))
                parts += 1
                if size > 8 * _PART:
                    progress(f"uploading {file.name}: {parts * _PART / size:.0%}")
    except OSError as error:
        raise Wrong(f"{file}: {error.strerror or error}") from None
    progress("")
    return wire.call(methods.ARTIFACTS_COMMIT, UploadEnd(upload_id=upload_id, parts=parts, name=file.name))
