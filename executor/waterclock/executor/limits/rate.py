"""Rate limits by key, over all executors together: one instant in the control bucket, moved by compare-and-set."""

import asyncio

from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import Conflict, LogError
from waterclock.core.runtime.clock import now_us
from waterclock.executor.limits.concurrency import digest_of
from waterclock.proto import names

_TRIES = 20
LONGEST_HOLD_SECONDS = 2.0
"""A run whose turn is nearer than this waits for it here; others come back later."""


class RateLimits:
    """Each run moves the instant at which the next may start, and starts at the one it found."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def reserve(self, key: str, per_second: float) -> float:
        """Seconds until this run's turn. Beyond LONGEST_HOLD_SECONDS no turn was reserved, and it has to ask again."""
        name = names.rate_state(digest_of(key))
        step = int(SECOND / per_second)
        for _ in range(_TRIES):
            try:
                entry = await self._bucket.get(name)
                now = now_us()
                turn = max(now, int(entry.value)) if entry is not None else now
                wait = (turn - now) / SECOND
                if wait > LONGEST_HOLD_SECONDS:
                    return wait
                value = str(turn + step).encode()
                ttl = wait + step / SECOND + 1
                if entry is None:
                    await self._bucket.create(name, value, ttl=ttl)
                else:
                    await self._bucket.update(name, value, entry.revision, ttl=ttl)
                return wait
            except Conflict:
                continue
            except LogError:
                await asyncio.sleep(0.2)
        return LONGEST_HOLD_SECONDS * 2
