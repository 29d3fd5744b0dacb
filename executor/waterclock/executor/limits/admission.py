"""What a run may need beside a slot: a place under its concurrency key, a turn under its rate."""

import asyncio

from waterclock.core.domain.instants import SECOND
from waterclock.core.runtime.clock import now_us
from waterclock.executor import attempt_record
from waterclock.executor.in_flight import Running, ended_by
from waterclock.executor.limits.concurrency import Keys, Place
from waterclock.executor.limits.rate import LONGEST_HOLD, Rates
from waterclock.proto.spec import JobSpec

_SHORTEST, _LONGEST = 1.0, 15.0


def is_gated(spec: JobSpec) -> bool:
    return spec.concurrency_key is not None or spec.rate_key is not None


class Gates:
    def __init__(self, keys: Keys, rates: Rates) -> None:
        self.keys = keys
        self._rates = rates

    async def enter(self, running: Running) -> Place | attempt_record.Ending | None:
        """A place to be given back, nothing if none was needed, or how the attempt ends instead."""
        spec = running.item.spec
        place = None
        if spec.concurrency_key is not None:
            limit = spec.concurrency_limit or 1
            place = await self.keys.acquire(spec.concurrency_key, limit, running)
            if place is None:
                return self._later(running, f"{limit} with the key {spec.concurrency_key} are running")
        if spec.rate_key is not None and spec.rate_per_second:
            wait = await self._rates.reserve(spec.rate_key, spec.rate_per_second)
            if wait > LONGEST_HOLD:
                if place is not None:
                    await self.keys.release(place)
                return self._later(running, f"over the rate of {spec.rate_key}", wait)
            await asyncio.sleep(wait)
        return place

    def _later(self, running: Running, reason: str, wait: float | None = None) -> attempt_record.Ending:
        """Who has waited long asks less often: the sooner ones have a better chance."""
        if running.cause is not None:
            return ended_by(running.cause)
        waited = (now_us() - running.item.due) / SECOND
        seconds = min(max(waited / 4, _SHORTEST), _LONGEST) if wait is None else wait
        return attempt_record.Snoozed(seconds=seconds, reason=reason)
