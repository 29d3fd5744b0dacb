"""How much a namespace may hold."""

import asyncio
import time

import msgspec
from msgspec import Struct

from waterclock.api.errors import RateLimited
from waterclock.api.readmodels import jobs
from waterclock.api.readmodels.pool import Pool, ReadModelsAway
from waterclock.core.jetstream.bucket import Bucket
from waterclock.proto.answers import Namespace

_FRESH_SECONDS = 1.0
_RETRY_AFTER = 60.0


class _Quota(Struct, frozen=True):
    max_jobs: int | None = None


class Quotas:
    """Counts come from the read models, a second old at most, plus what was accepted here since. While the read models
    are away nobody is refused: accepting comes before counting."""

    def __init__(self, bucket: Bucket, pool: Pool) -> None:
        self._bucket = bucket
        self._pool = pool
        self._known: dict[str, tuple[float, int | None, int]] = {}
        self._reading = asyncio.Lock()

    async def take(self, namespace: str, count: int = 1) -> None:
        """Raises RateLimited when so many more jobs are too many."""
        limit, held = await self._state(namespace)
        if limit is None:
            return
        if held + count > limit:
            raise RateLimited.because(
                f"the namespace {namespace} may hold {limit} jobs and has {held}", retry_after=_RETRY_AFTER
            )
        self._known[namespace] = (self._known[namespace][0], limit, held + count)

    async def set(self, namespace: str, max_jobs: int | None) -> Namespace:
        await self._bucket.put(_key(namespace), msgspec.json.encode(_Quota(max_jobs)))
        self._known.pop(namespace, None)
        limit, held = await self._state(namespace)
        return Namespace(namespace=namespace, max_jobs=limit, jobs=held)

    async def all(self) -> list[Namespace]:
        counts = await jobs.live_by_namespace(self._pool)
        limits = {
            entry.key.rpartition(".")[2]: msgspec.json.decode(entry.value, type=_Quota).max_jobs
            for entry in await self._bucket.scan(_key("*"))
        }
        return [
            Namespace(namespace=name, max_jobs=limits.get(name), jobs=counts.get(name, 0))
            for name in sorted({*counts, *limits})
        ]

    async def _state(self, namespace: str) -> tuple[int | None, int]:
        if not self._is_fresh(namespace):
            async with self._reading:
                if not self._is_fresh(namespace):
                    self._known[namespace] = (time.monotonic(), *await self._read(namespace))
        return self._known[namespace][1:]

    def _is_fresh(self, namespace: str) -> bool:
        known = self._known.get(namespace)
        return known is not None and time.monotonic() - known[0] <= _FRESH_SECONDS

    async def _read(self, namespace: str) -> tuple[int | None, int]:
        entry = await self._bucket.get(_key(namespace))
        limit = None if entry is None else msgspec.json.decode(entry.value, type=_Quota).max_jobs
        if limit is None:
            return None, 0
        try:
            return limit, (await jobs.live_by_namespace(self._pool)).get(namespace, 0)
        except ReadModelsAway:
            return None, 0


def _key(namespace: str) -> str:
    return f"namespace.{namespace}"
