"""The timing index in its KV bucket: read minute by minute, written in batches, purged behind the cursor.

The lease fences `RUNS` and not this stream, so the index has a fence of its own: a key per partition that every new
owner writes before it reads the index. All that an owner writes expects that key as it wrote it, so one that has been
replaced cannot bring back what the new one has removed.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.due.timing_index import IndexEntry, decode_entry
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.publisher import Expect
from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.ports import LeaseLost

_AT_A_TIME = 32
_SCAN_BY_HOUR = 120
"""From this many minutes on, a stretch is read hour by hour."""


class TimingBucket:
    """One partition's part of the index. `take` it before anything else."""

    def __init__(self, bucket: Bucket, partition: int) -> None:
        self._bucket = bucket
        self._partition = partition
        self._fence = 0
        """The revision of the fence that we wrote."""
        self._known = 0
        """The last sequence that we have read or written."""
        self._occupied: set[int] = set()
        """Minutes known to have entries: the others need no purge."""

    async def take(self, lease: Lease) -> None:
        """Write the fence. Raises LeaseLost.

        By compare-and-set, and the lease is confirmed between the reading and the writing. So of two that believe to be
        the owner, the stale one finds either that the fence has moved or that the lease is not its own.
        """
        key = names.timing_fence(self._partition)
        what = f"the index of partition {self._partition}"
        while True:
            found = await until_known(what, partial(self._bucket.get, key))
            try:
                await until_known(what, lease.confirm)
            except Conflict as error:
                raise LeaseLost(f"partition {self._partition} has another owner: {error}") from error
            value = str(lease.token).encode()
            try:
                if found is None:
                    self._fence = self._known = await self._bucket.create(key, value)
                else:
                    self._fence = self._known = await self._bucket.update(key, value, found.revision)
                return
            except Conflict:
                continue

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

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Raises LeaseLost."""
        for key in changes:
            self._note_minute(key)
        subject = names.kv_subject(self._bucket.name, names.timing_fence(self._partition))
        fence = Expect(last_subject_sequence=self._fence, subject=subject)
        try:
            # May be repeated as a whole: the same values under the same keys.
            self._known = await until_known(
                f"the index of partition {self._partition}",
                partial(self._bucket.change_fenced, changes, fence),
            )
        except Conflict as error:
            raise LeaseLost(f"the index of partition {self._partition} has another owner: {error}") from error

    async def remove(self, void: Mapping[str, int]) -> None:
        """Not fenced, and harmless from a stale owner: what made these entries void is in the log, whose appends are
        fenced, and no owner ever writes an entry of a version that the log has passed."""
        jobs = list(void.items())
        for start in range(0, len(jobs), _AT_A_TIME):
            chunk = jobs[start : start + _AT_A_TIME]
            await asyncio.gather(*(self._remove(job_id, version) for job_id, version in chunk))

    async def _remove(self, job_id: str, version: int) -> None:
        pattern = names.timing_of_job(self._partition, job_id)
        keys = await until_known(f"entries of {job_id}", partial(self._bucket.keys, pattern))
        for key in keys:
            if int(key.rpartition(".")[2]) <= version:
                await self._purge(key)

    async def purge_before(self, instant: Instant) -> None:
        """Not fenced, either. The log has passed these minutes, and what somebody else may have written to them since
        is after all that we know of, so it stays."""
        passed = [minute for minute in self._occupied if (minute + 1) * MINUTE <= instant]
        for minute in passed:
            await self._purge(names.timing_minute(self._partition, minute))
            self._occupied.discard(minute)

    async def _purge(self, pattern: str) -> None:
        purge = partial(self._bucket.purge, pattern, through=self._known)
        await until_known(f"the index of partition {self._partition}", purge)

    async def _read(self, pattern: str) -> list[IndexEntry]:
        found = await until_known(pattern, partial(self._bucket.scan, pattern))
        for entry in found:
            self._note_minute(entry.key)
            self._known = max(self._known, entry.revision)
        return [decode_entry(entry.value) for entry in found]

    def _note_minute(self, key: str) -> None:
        _, group, rest = key.split(".", 2)
        if group != "hot":
            self._occupied.add(int(group) * 60 + int(rest.partition(".")[0]))
