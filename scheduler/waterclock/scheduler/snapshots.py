"""Snapshots of a partition's state, so that a takeover replays the tail of the log and not the whole of it.

A snapshot is derived: losing one costs time, nothing else. It is written in chunks under a generation, the manifest
last, all in atomic batches; an older generation is dropped afterwards.
"""

import msgspec
from msgspec import Struct

from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.jetstream.bucket import Bucket

_CHUNK = 256 * 1024
_FORMAT = 1


class Manifest(Struct, frozen=True, kw_only=True):
    generation: int
    chunks: int
    consumed: int
    """Every foreign frame up to this sequence of `RUNS` is in the state."""
    own_through: int
    """So is every frame of `writer` up to this one, which may be later."""
    writer: str
    format: int = _FORMAT


class Snapshots:
    def __init__(self, bucket: Bucket, partition: int) -> None:
        self._bucket = bucket
        self._prefix = f"snapshot.{partition}"

    async def write(self, state: PartitionState, *, consumed: int, own_through: int, writer: str) -> None:
        data = _encode(state)
        pieces = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
        generation = max(consumed, own_through)
        entries: dict[str, bytes | None] = {
            f"{self._prefix}.{generation}.{number}": piece for number, piece in enumerate(pieces)
        }
        entries[f"{self._prefix}.manifest"] = _encode(
            Manifest(
                generation=generation,
                chunks=len(pieces),
                consumed=consumed,
                own_through=own_through,
                writer=writer,
            )
        )
        previous = await self._manifest()
        await self._bucket.put_many(entries)
        if previous is not None and previous.generation != generation:
            await self._bucket.purge(f"{self._prefix}.{previous.generation}.*")

    async def read(self) -> tuple[Manifest, PartitionState] | None:
        """The last whole snapshot; None when there is none that this version can read."""
        manifest = await self._manifest()
        if manifest is None or manifest.format != _FORMAT:
            return None
        pieces = []
        for number in range(manifest.chunks):
            entry = await self._bucket.get(f"{self._prefix}.{manifest.generation}.{number}")
            if entry is None:
                return None
            pieces.append(entry.value)
        try:
            return manifest, _decode_state(b"".join(pieces))
        except msgspec.DecodeError:
            return None

    async def _manifest(self) -> Manifest | None:
        entry = await self._bucket.get(f"{self._prefix}.manifest")
        try:
            return None if entry is None else _decode_manifest(entry.value)
        except msgspec.DecodeError:
            return None


_encode = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(PartitionState).decode
_decode_manifest = msgspec.json.Decoder(Manifest).decode
