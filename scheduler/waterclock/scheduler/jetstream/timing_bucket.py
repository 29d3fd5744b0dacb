"""The timing index in its KV bucket: read minute by minute, written in batches, purged behind the cursor."""

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.timing_index import IndexEntry, decode_entry
from waterclock.core.jetstream.bucket import Bucket
from waterclock.proto import names
from waterclock.proto.events import Instant

_SCAN_BY_HOUR = 120
"""From this many minutes on, a stretch is read hour by hour."""


class TimingBucket:
    """One partition's part of the index."""

    def __init__(self, bucket: Bucket, partition: int) -> None:
        self._bucket = bucket
        self._partition = partition
        self._occupied: set[int] = set()
        """Minutes known to have entries: the others need no purge."""

    async def hot(self) -> list[IndexEntry]:
        return await self._read(names.timing_all_hot(self._partition))

    async def minutes(self, first: int, last: int) -> list[IndexEntry]:
        entries: list[IndexEntry] = []
        if last - first >= _SCAN_BY_HOUR:
            for hour in range(first // 60, last // 60 + 1):
                entries += await self._read(names.timing_hour(self._partition, hour))
        else:
            for minute in range(first, last + 1):
                entries += await self._read(names.timing_minute(self._partition, minute))
        return entries

    async def write(self, changes: dict[str, bytes | None]) -> None:
        for key in changes:
            self._note_minute(key)
        await self._bucket.put_many(changes)

    async def remove(self, job_id: str, version: int) -> None:
        keys = await self._bucket.keys(names.timing_of_job(self._partition, job_id))
        void: dict[str, bytes | None] = {key: None for key in keys if int(key.rpartition(".")[2]) <= version}
        if void:
            await self._bucket.put_many(void)

    async def purge_before(self, instant: Instant) -> None:
        passed = [minute for minute in self._occupied if (minute + 1) * MINUTE <= instant]
        for minute in passed:
            await self._bucket.purge(names.timing_minute(self._partition, minute))
            self._occupied.discard(minute)

    async def _read(self, pattern: str) -> list[IndexEntry]:
        found = await self._bucket.scan(pattern)
        for entry in found:
            self._note_minute(entry.key)
        return [decode_entry(entry.value) for entry in found]

    def _note_minute(self, key: str) -> None:
        _, group, rest = key.split(".", 2)
        if group != "hot":
            self._occupied.add(int(group) * 60 + int(rest.partition(".")[0]))
