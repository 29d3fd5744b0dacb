"""How much a namespace may hold, and what its definitions have that do not say."""

import asyncio
import time
from collections.abc import Callable
from math import inf

import msgspec
from msgspec import Struct

from waterclock.api.errors import RateLimited
from waterclock.api.readmodels import jobs
from waterclock.api.readmodels.pool import Pool, ReadModelsAway
from waterclock.core.domain.job.validate import Defaults
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.runtime.quarantine import read_record
from waterclock.core.runtime.settings import Settings
from waterclock.proto.answers import Namespace
from waterclock.proto.codec import decoder
from waterclock.proto.commands import QuotaRequest

_FRESH_SECONDS = 1.0
_RETRY_AFTER = 60.0


class _Quota(Struct, frozen=True, omit_defaults=True):
    """What is said of a namespace; what is not is as for all."""

    max_jobs: int | None = None
    default_max_retries: int | None = None
    default_timeout_seconds: float | None = None


_decode = decoder(_Quota)


class Quotas:
    """Counts come from the read models, a second old at most, plus what was accepted here since. While the read models
    are away nobody is refused: accepting comes before counting."""

    def __init__(self, bucket: Bucket, pool: Pool, settings: Settings) -> None:
        self._bucket = bucket
        self._pool = pool
        self._common = _defaults(settings.default_max_retries, settings.default_timeout_seconds)
        self._defaults: dict[str, Defaults] = {}
        """Of namespaces that have their own."""
        self._defaults_read = -inf
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

    async def set(self, request: QuotaRequest) -> Namespace:
        namespace = request.namespace
        quota = _Quota(request.max_jobs, request.default_max_retries, request.default_timeout_seconds)
        await self._bucket.put(_key(namespace), msgspec.json.encode(quota))
        self._known.pop(namespace, None)
        self._defaults_read = -inf
        _, held = await self._state(namespace)
        return self._answer(namespace, quota, held)

    async def defaults(self) -> Callable[[str], Defaults]:
        """What a definition has that does not say, by namespace; as it was a second ago at most."""
        if time.monotonic() - self._defaults_read > _FRESH_SECONDS:
            self._defaults_read = time.monotonic()
            quotas = await self._all()
            self._defaults = {name: self._of(quota) for name, quota in quotas.items()}
        return self._of_namespace

    def _of_namespace(self, namespace: str) -> Defaults:
        return self._defaults.get(namespace, self._common)

    def _of(self, quota: _Quota) -> Defaults:
        common, retries, timeout = self._common, quota.default_max_retries, quota.default_timeout_seconds
        return _defaults(
            common.max_retries if retries is None else retries,
            common.timeout_seconds if timeout is None else timeout,
        )

    async def all(self) -> list[Namespace]:
        counts = await jobs.live_by_namespace(self._pool)
        quotas = await self._all()
        return [
            self._answer(name, quotas.get(name, _Quota()), counts.get(name, 0))
            for name in sorted({*counts, *quotas})
        ]

    async def _all(self) -> dict[str, _Quota]:
        return {
            entry.key.rpartition(".")[2]: read_record(_decode, self._bucket.stream, entry, _Quota())
            for entry in await self._bucket.scan(_key("*"))
        }

    def _answer(self, namespace: str, quota: _Quota, jobs: int) -> Namespace:
        defaults = self._of(quota)
        return Namespace(
            namespace=namespace,
            max_jobs=quota.max_jobs,
            jobs=jobs,
            default_max_retries=defaults.max_retries,
            default_timeout_seconds=defaults.timeout_seconds,
        )

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
        limit = None if entry is None else read_record(_decode, self._bucket.stream, entry, _Quota()).max_jobs
        if limit is None:
            return None, 0
        try:
            return limit, (await jobs.live_by_namespace(self._pool)).get(namespace, 0)
        except ReadModelsAway:
            return None, 0


def _defaults(max_retries: int, timeout_seconds: float | None) -> Defaults:
    return Defaults(max_retries=max_retries, timeout_seconds=timeout_seconds or None)


def _key(namespace: str) -> str:
    return f"namespace.{namespace}"
