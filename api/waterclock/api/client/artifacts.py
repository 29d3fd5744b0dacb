"""`clock.artifacts`: programs and archives that jobs run."""

import asyncio
import secrets
from pathlib import Path

from waterclock.api.client.wire import Wire
from waterclock.proto import answers, methods, queries

_PART = 1 << 20


class Artifacts:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def push(self, content: bytes | Path, *, name: str = "") -> answers.Artifact:
        """Upload bytes or a file, part by part; `artifact` of the answer is what a job names."""
        upload_id, parts = secrets.token_hex(10), 0
        if isinstance(content, Path):
            name, content = name or content.name, await asyncio.to_thread(content.read_bytes)
        for start in range(0, len(content), _PART):
            part = queries.UploadPart(upload_id=upload_id, number=parts, data=content[start : start + _PART])
            await self._wire.call(methods.ARTIFACTS_PART, part)
            parts += 1
        end = queries.UploadEnd(upload_id=upload_id, parts=parts, name=name)
        return await self._wire.call(methods.ARTIFACTS_COMMIT, end)

    async def list(self) -> list[answers.Artifact]:
        return (await self._wire.call(methods.ARTIFACTS_LIST, queries.Nothing())).items
