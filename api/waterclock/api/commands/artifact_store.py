"""Artifacts: bytes by their digest, and who has uploaded them."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from typing import IO

import msgspec
from msgspec import Struct

from waterclock.api.errors import NotFound, TooLarge
from waterclock.core.domain.instants import datetime_of
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.runtime.clock import now_us
from waterclock.core.store.store import Store
from waterclock.proto.answers import Artifact
from waterclock.proto.events import Instant

_LARGEST = 4 << 30
_PIECE = 1 << 20
_IN_MEMORY = 4 << 20


class _Card(Struct, frozen=True, kw_only=True):
    """What is known of an artifact in one namespace."""

    size: int
    name: str
    at: Instant
    actor: str


class Shelf:
    """A namespace sees what it has uploaded; the bytes themselves are kept once."""

    def __init__(self, store: Store, cards: Bucket) -> None:
        self._store = store
        self._cards = cards

    async def put(self, content: AsyncIterator[bytes], *, namespace: str, name: str, actor: str) -> Artifact:
        """Keeps the content under its digest, which is known only at its end: until then it lies on disk."""
        digest, size = hashlib.sha256(), 0
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
            async for piece in content:
                size += len(piece)
                if size > _LARGEST:
                    raise TooLarge.because(f"an artifact may have {_LARGEST} bytes")
                digest.update(piece)
                await asyncio.to_thread(spool.write, piece)
            artifact = f"sha256:{digest.hexdigest()}"
            there = await self._store.size(artifact) == size
            if not there:
                spool.seek(0)
                await self._store.put(artifact, _pieces(spool))
        card = await self._card(namespace, artifact)
        if card is None:
            card = _Card(size=size, name=name, at=now_us(), actor=actor)
            await self._cards.put(_key(namespace, artifact), msgspec.json.encode(card))
        return _shown(artifact, card, created=not there)

    async def find(self, artifact: str, namespace: str) -> Artifact:
        artifact = f"sha256:{artifact.removeprefix('sha256:')}"
        card = await self._card(namespace, artifact)
        if card is None:
            raise NotFound.because(f"there is no artifact {artifact}")
        return _shown(artifact, card)

    def content(self, artifact: Artifact) -> AsyncIterator[bytes]:
        return self._store.get(artifact.artifact)

    async def list(self, namespace: str) -> list[Artifact]:
        entries = await self._cards.scan(_key(namespace, "*"))
        found = [
            _shown(f"sha256:{entry.key.rpartition('.')[2]}", msgspec.json.decode(entry.value, type=_Card))
            for entry in entries
        ]
        return sorted(found, key=lambda artifact: str(artifact.created_at), reverse=True)

    async def _card(self, namespace: str, artifact: str) -> _Card | None:
        entry = await self._cards.get(_key(namespace, artifact))
        return None if entry is None else msgspec.json.decode(entry.value, type=_Card)


def _key(namespace: str, artifact: str) -> str:
    return f"artifact.{namespace}.{artifact.removeprefix('sha256:')}"


def _shown(artifact: str, card: _Card, *, created: bool = True) -> Artifact:
    return Artifact(
        artifact=artifact, size=card.size, name=card.name, created_at=datetime_of(card.at), created=created
    )


async def _pieces(spool: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(spool.read, _PIECE):
        yield piece
