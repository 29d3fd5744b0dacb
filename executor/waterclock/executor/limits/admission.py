"""What a run may need before it gets a slot: a permit under its concurrency key, a turn under its rate key.

A run that would wait long is snoozed instead, so that it does not keep its executor from other work.
"""

import asyncio

from waterclock.core.domain.ids import DEFAULT_NAMESPACE
from waterclock.core.domain.instants import SECOND
from waterclock.core.runtime.clock import now_us
from waterclock.executor.attempt_record import Result, Snoozed
from waterclock.executor.in_flight import RunningAttempt, result_of_stop
from waterclock.executor.limits.concurrency import ConcurrencyLimits, Permit
from waterclock.executor.limits.rate import LONGEST_HOLD_SECONDS, RateLimits
from waterclock.proto.spec import JobSpec

_SHORTEST_SNOOZE, _LONGEST_SNOOZE = 1.0, 15.0


def is_limited(spec: JobSpec) -> bool:
    return spec.concurrency_key is not None or spec.rate_key is not None


def _of_namespace(spec: JobSpec, key: str) -> str:
    """A key is its namespace's own. In the default one it is as it always was; no namespace's name has a `=`."""
    return key if spec.namespace == DEFAULT_NAMESPACE else f"{spec.namespace}={key}"


class Admission:
    def __init__(self, concurrency: ConcurrencyLimits, rates: RateLimits) -> None:
        self.concurrency = concurrency
        self._rates = rates

    async def wait(self, running: RunningAttempt) -> Permit | Result | None:
        """A permit to be released, nothing if none is needed, or the result of an attempt that was not admitted."""
        spec = running.item.spec
        permit = None
        if spec.concurrency_key is not None:
            limit = spec.concurrency_limit or 1
            key = _of_namespace(spec, spec.concurrency_key)
            permit = await self.concurrency.acquire(key, limit, running)
            if permit is None:
                return self._not_admitted(running, f"{limit} with the key {spec.concurrency_key} are running")
        if spec.rate_key is not None and spec.rate_per_second:
            wait = await self._rates.reserve(_of_namespace(spec, spec.rate_key), spec.rate_per_second)
            if wait > LONGEST_HOLD_SECONDS:
                if permit is not None:
                    await self.concurrency.release(permit)
                return self._not_admitted(running, f"over the rate of {spec.rate_key}", wait)
            await asyncio.sleep(wait)
        return permit

    def _not_admitted(self, running: RunningAttempt, reason: str, wait: float | None = None) -> Result:
        """The longer it has waited the longer it is snoozed: runs that were due recently get a better chance."""
        if running.stop_cause is not None:
            return result_of_stop(running.stop_cause)
        waited = (now_us() - running.item.due) / SECOND
        seconds = min(max(waited / 4, _SHORTEST_SNOOZE), _LONGEST_SNOOZE) if wait is None else wait
        return Snoozed(seconds=seconds, reason=reason)
