"""The store of the timing index: a KV bucket.

The lease fences `RUNS` and not this stream, so the index has a fence of its own: a key per partition that every new
owner writes before it reads the index. All that an owner writes expects that key as it wrote it, so one that has been
replaced cannot bring back what the new one has removed.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.publisher import Expect
from waterclock.proto import names
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.ports import LeaseLost
from waterclock.scheduler.timing.timing_index import Stored

_AT_A_TIME = 32
_GROUPS_AT_A_TIME = 4
"""A group may have 256 KB, and all partitions may read some."""
_SOME_BYTES = 512 * 1024


class TimingBucket:
    """One partition's part of the index. `take` it before anything else."""

    def __init__(self, bucket: Bucket, partition: int) -> None:
        self._bucket = bucket
        self._partition = partition
        self._fence = 0
        """The revision of the fence that we wrote."""
        self._known = 0
        """The last sequence that we have read or written."""

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

    @property
    def writer(self) -> str:
        return str(self._fence)

    async def scan(self, pattern: str) -> list[Stored]:
        return self._noted(await until_known(pattern, partial(self._bucket.scan, pattern)))

    async def some(self, pattern: str) -> list[Stored]:
        return self._noted(await until_known(pattern, partial(self._bucket.first, pattern, _SOME_BYTES)))

    async def keys(self, pattern: str) -> list[str]:
        return await until_known(pattern, partial(self._bucket.keys, pattern))

    async def get(self, keys: Sequence[str]) -> list[Stored]:
        found: list[Stored] = []
        for start in range(0, len(keys), _GROUPS_AT_A_TIME):
            chunk = keys[start : start + _GROUPS_AT_A_TIME]
            reads = (until_known(key, partial(self._bucket.get, key)) for key in chunk)
            found += self._noted([entry for entry in await asyncio.gather(*reads) if entry is not None])
        return found

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Raises LeaseLost."""
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

    async def remove_hot(self, void: Mapping[str, int]) -> None:
        """Not fenced, and harmless from a stale owner: what made these entries void is in the log, whose appends are
        fenced, and no owner ever writes an entry of a version that the log has passed."""
        jobs = list(void.items())
        for start in range(0, len(jobs), _AT_A_TIME):
            chunk = jobs[start : start + _AT_A_TIME]
            await asyncio.gather(*(self._remove_hot(job_id, version) for job_id, version in chunk))

    async def _remove_hot(self, job_id: str, version: int) -> None:
        pattern = names.timing_hot_of_job(self._partition, job_id)
        keys = await until_known(f"entries of {job_id}", partial(self._bucket.keys, pattern))
        for key in keys:
            of_version = key.rpartition(".")[2]
            if of_version.isdigit() and int(of_version) <= version:
                await self._purge(key)

    async def purge(self, *patterns: str) -> None:
        """Not fenced, either. The log has passed these minutes and entries, and what somebody else may have written to
        them since is after all that we know of, so it stays."""
        for start in range(0, len(patterns), _AT_A_TIME):
            await asyncio.gather(*map(self._purge, patterns[start : start + _AT_A_TIME]))

    async def _purge(self, pattern: str) -> None:
        purge = partial(self._bucket.purge, pattern, through=self._known)
        await until_known(f"the index of partition {self._partition}", purge)

    def _noted(self, found: Iterable[Entry]) -> list[Stored]:
        for entry in found:
            self._known = max(self._known, entry.revision)
        return [(entry.key, entry.value) for entry in found]
