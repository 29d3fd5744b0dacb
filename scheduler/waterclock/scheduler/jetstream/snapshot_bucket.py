"""Snapshots of a partition's state, so that a takeover replays the tail of the log and not the whole of it.

A snapshot is derived: losing one costs time, nothing else. It is written in chunks under a generation, the manifest
last, all in atomic batches; an older generation is dropped afterwards.
"""

import time
from functools import partial

import msgspec
from msgspec import Struct

from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.proto.codec import decoder
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.ports import Snapshot

_CHUNK = 256 * 1024
_FORMAT = 1
_EVERY_SECONDS = 30.0
_EVERY_CHANGES = 20_000


class Manifest(Struct, frozen=True, kw_only=True):
    """The stored form; see ports.Snapshot."""

    generation: int
    chunks: int
    consumed: int
    own_through: int
    writer: str
    format: int = _FORMAT


class SnapshotBucket:
    def __init__(self, bucket: Bucket, partition: int) -> None:
        self._bucket = bucket
        self._prefix = f"snapshot.{partition}"
        self._written_at = time.monotonic()

    def is_due(self, changes: int) -> bool:
        return changes > 0 and (
            changes >= _EVERY_CHANGES or time.monotonic() - self._written_at > _EVERY_SECONDS
        )

    async def write(self, snapshot: Snapshot) -> None:
        self._written_at = time.monotonic()
        data = _encode(snapshot.state)
        pieces = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
        generation = max(snapshot.consumed, snapshot.own_through)
        entries = {f"{self._prefix}.{generation}.{number}": piece for number, piece in enumerate(pieces)}
        entries[f"{self._prefix}.manifest"] = _encode(
            Manifest(
                generation=generation,
                chunks=len(pieces),
                consumed=snapshot.consumed,
                own_through=snapshot.own_through,
                writer=snapshot.writer,
            )
        )
        previous = await self._manifest()
        await until_known(self._prefix, partial(self._bucket.put_many, entries))
        if previous is not None and previous.generation != generation:
            await until_known(
                self._prefix, partial(self._bucket.purge, f"{self._prefix}.{previous.generation}.*")
            )

    async def read(self) -> Snapshot | None:
        manifest = await self._manifest()
        if manifest is None or manifest.format != _FORMAT:
            return None
        pieces = []
        for number in range(manifest.chunks):
            entry = await self._get(f"{manifest.generation}.{number}")
            if entry is None:
                return None
            pieces.append(entry.value)
        try:
            state = _decode_state(b"".join(pieces))
        except msgspec.DecodeError:
            return None
        return Snapshot(
            state=state,
            consumed=manifest.consumed,
            own_through=manifest.own_through,
            writer=manifest.writer,
        )

    async def _manifest(self) -> Manifest | None:
        entry = await self._get("manifest")
        try:
            return None if entry is None else _decode_manifest(entry.value)
        except msgspec.DecodeError:
            return None

    async def _get(self, part: str) -> Entry | None:
        return await until_known(self._prefix, partial(self._bucket.get, f"{self._prefix}.{part}"))


_encode = msgspec.json.Encoder().encode
_decode_state = decoder(PartitionState)
_decode_manifest = decoder(Manifest)
