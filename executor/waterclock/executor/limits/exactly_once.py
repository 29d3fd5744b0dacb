"""Exactly-once delivery: a lease for each run, and a fencing token that grows with every lease.

The lease is a key of the control bucket, taken by compare-and-set, with a TTL, renewed while the attempt lives.
Its first revision is the fencing token. An attempt whose lease was not renewed in time is stopped before the lease
expires, by the warden if the executor itself hangs; so no two attempts of a run are ever performed at once. And an
outcome counts only if the lease is still held when it is written: a late one is recorded as rejected.
"""

import asyncio
import logging
import time

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.errors import Conflict, LogError
from waterclock.core.runtime.quarantine import read_record
from waterclock.executor.in_flight import RunningAttempt, StopCause
from waterclock.proto import names
from waterclock.proto.codec import decoder
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

TTL = 6.0
HELD_SECONDS = 4.5
"""How long after its last renewal the lease is relied on. The rest of the TTL covers clock drift and the kill."""
_RENEW_SECONDS = 1.5
_RETRY_SECONDS = 0.25


class Holder(Struct, frozen=True):
    executor_id: str
    attempt: int
    token: int = 0
    """0 in the first revision, which is the token itself."""


_decode = decoder(Holder)
_NOBODY = Holder("", 0)


class RunLeases:
    def __init__(self, bucket: Bucket, executor_id: str) -> None:
        self._bucket = bucket
        self._executor_id = executor_id

    async def acquire(self, item: WorkItem, running: RunningAttempt) -> "RunLease | None":
        """Wait until no other attempt of this run has the lease. None if the attempt was stopped meanwhile."""
        key = names.run_lease_key(item.run_id)
        holder = Holder(self._executor_id, item.attempt)
        while running.stop_cause is None:
            requested = time.monotonic()
            try:
                token = await self._bucket.create(key, msgspec.json.encode(holder), ttl=TTL)
                return RunLease(self._bucket, key, msgspec.structs.replace(holder, token=token), requested)
            except Conflict:
                pass
            except LogError as error:
                _log.warning("cannot take a lease", extra={"run_id": item.run_id, "error": str(error)})
            await asyncio.sleep(_RETRY_SECONDS)
        return None


class RunLease:
    """The lease of one run, held by this executor."""

    def __init__(self, bucket: Bucket, key: str, holder: Holder, renewed: float) -> None:
        self.token = holder.token
        self._bucket = bucket
        self._key = key
        self._value = msgspec.json.encode(holder)
        self._revision = holder.token
        self._renewed = renewed

    async def keep_renewed(self, running: RunningAttempt) -> None:
        """Renew until cancelled; stop the attempt if that fails for too long."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + self.seconds_left):
                    await self._renew()
                running.lease_renewed(self.seconds_left)
            except Conflict:
                break
            except LogError:
                if self.seconds_left <= 0:
                    break
            except TimeoutError:
                break
        running.stop(StopCause(kind="lease_lost", reason="its lease was lost"))

    @property
    def seconds_left(self) -> float:
        """How long the lease may still be relied on."""
        return self._renewed + HELD_SECONDS - time.monotonic()

    async def confirm(self) -> int | None:
        """Ask the server whether the lease is still ours: None if so, else its holder's token, 0 if it has none."""
        while True:
            try:
                await self._renew()
                return None
            except Conflict:
                entry = await self._entry()
                if entry is None:
                    return 0
                if entry.value != self._value:
                    return read_record(_decode, self._bucket.stream, entry, _NOBODY).token or entry.revision
                self._revision = (
                    entry.revision
                )  # a renewal of ours that had timed out here but reached the server
            except LogError:
                await asyncio.sleep(_RETRY_SECONDS)

    async def release(self) -> None:
        try:
            await self._bucket.release(self._key, revision=self._revision)
        except LogError:
            pass  # it expires by itself

    async def _entry(self) -> Entry | None:
        while True:
            try:
                return await self._bucket.get(self._key)
            except LogError:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _renew(self) -> None:
        requested = time.monotonic()
        self._revision = await self._bucket.update(self._key, self._value, self._revision, ttl=TTL)
        self._renewed = requested
