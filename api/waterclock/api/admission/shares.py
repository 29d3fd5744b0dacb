"""What there is to accept, shared between the namespaces that ask for it.

Each namespace that asked a moment ago has an equal share of the rate, and a bucket that fills at it and holds a second
of it. So who asks for little is not refused because another floods. What somebody leaves of a share is given to
nobody: as less is accepted than is done, the backlog shrinks, and all are let in again.
"""

from collections import OrderedDict

from msgspec import Struct

_ACTIVE_SECONDS = 10.0
_BURST_SECONDS = 1.0
_MOST = 10_000
"""Namespaces that are remembered. One that was forgotten begins with a full bucket."""


class _Bucket(Struct):
    level: float
    since: float


class Shares:
    def __init__(self) -> None:
        self._asked: OrderedDict[str, float] = OrderedDict()
        """When each namespace asked last; the latest is at the end."""
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def asks(self, namespace: str, now: float) -> None:
        """From now on, and for a while, it has a share."""
        self._asked[namespace] = now
        self._asked.move_to_end(namespace)
        while now - next(iter(self._asked.values())) > _ACTIVE_SECONDS or len(self._asked) > _MOST:
            self._asked.popitem(last=False)

    def wait(self, namespace: str, rate: float, now: float) -> float:
        """Seconds until it may take something; 0 if it may now."""
        level, share = self._filled(namespace, rate, now)
        return 0.0 if level > 0 else (1.0 - level) / share

    def take(self, namespace: str, count: int, rate: float, now: float) -> None:
        """Only when there is nothing to wait for. More than is there becomes a debt: many jobs in one call are taken as
        a whole, and it is longer until the next."""
        level, _ = self._filled(namespace, rate, now)
        self._buckets[namespace] = _Bucket(level - count, now)
        self._buckets.move_to_end(namespace)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)

    def _filled(self, namespace: str, rate: float, now: float) -> tuple[float, float]:
        """What is in its bucket now, and its share of the rate."""
        share = max(rate, 0.01) / max(1, len(self._asked))
        most = max(1.0, share * _BURST_SECONDS)
        bucket = self._buckets.get(namespace)
        level = most if bucket is None else min(most, bucket.level + (now - bucket.since) * share)
        return level, share
