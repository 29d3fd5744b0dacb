"""How often a token may ask: a bucket of tries that fills up again with time."""

import time

from waterclock.api.errors import RateLimited

_BURST_SECONDS = 1.0
_MOST = 10_000
"""Buckets kept; a token that has not asked for a while starts with a full one anyway."""


class Rates:
    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str, per_second: float) -> None:
        """Raises RateLimited, with the time after which a try is free again."""
        now = time.monotonic()
        most = max(1.0, per_second * _BURST_SECONDS)
        left, since = self._buckets.pop(who, (most, now))
        left = min(most, left + (now - since) * per_second)
        if left < 1:
            self._buckets[who] = (left, now)
            wait = (1 - left) / per_second
            raise RateLimited.because(f"this token may ask {per_second:g} times a second", retry_after=wait)
        self._buckets[who] = (left - 1, now)
        if len(self._buckets) > _MOST:
            self._buckets.pop(next(iter(self._buckets)))
