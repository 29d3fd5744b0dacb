"""Whether so many jobs are accepted now, given how far behind the system is. Pure: the time is passed in.

Up to `DRAIN_LIMIT_SECONDS` of work everything is accepted. Above that, what makes work soon is accepted at the rate at
which work is done. Jobs of the far future only have to be read: they are refused when what is to be read is too much.
A namespace of which too much waits for the slots of slow work, or for executors that are not there, gets no more in
until some of it has gone; others are not refused because of it.
"""

import random
from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Literal

from msgspec import Struct

from waterclock.api.admission.shares import Shares
from waterclock.core.domain.system_load import SystemLoad
from waterclock.proto.heartbeats import DRAIN_LIMIT_SECONDS

_PART_OF_DRAIN = 7.0
_LONGEST_WAIT = 10.0
"""Who waits for a part of the drain time comes back before there is nothing to do, and as seldom as is of use. Nobody
waits for longer, whatever they have taken in advance: the rate may be another by then."""
_UNHELD_SECONDS = 0.15
"""Bulk calls are held while more work than this is before them. A job whose run is over within a second is read,
decided and written to Postgres in one step of each; one that waits costs half as much again."""
_LONGEST_HOLD = 3.0
"""Clients with a limit of five seconds are common."""
_SOON_RATE = 12_000.0
_LATER_RATE = 40_000.0
"""Jobs a second that are believed to be done as long as nothing was shown: to be careful then would hold callers back
for the first seconds of every flood. Those that are due soon are run, the others are only put away."""
_TOO_MUCH_SECONDS = 0.3
"""With so much to drain, what ends is all that can be done; where less is and callers are held, more could be."""
_LESS, _MORE = 0.7, 1.25
"""By so much at a time the rate gets there: what ends in the first moments of a flood is not what can be done."""
_MOST = 1.5
"""It is not believed to be more than so many times what ends."""
_FORGOTTEN_SECONDS = 600.0
_SPREAD = 1.5
"""Callers that are refused at the same moment are told to come back at different ones."""

Reason = Literal["saturated", "unread", "crowded"]


class Refusal(Struct, frozen=True, kw_only=True):
    reason: Reason
    retry_after: int
    drain_seconds: float = 0.0
    jobs_per_second: float = 0.0
    waiting: int = 0
    """Jobs of the namespace that wait for slots, where they are too many."""


class Throttle:
    def __init__(self, spread: Callable[[], float] = lambda: random.uniform(1.0, _SPREAD)) -> None:
        self.load = SystemLoad()
        self.apis = 1
        """How many apis slow callers down, this one included: the rate is for all of them."""
        self.accepted = RecentRate()
        self._spread = spread
        self.accepted_in_all = 0
        self._unheard = 0
        """Jobs accepted since the load was heard of."""
        self._heard_at = 0.0
        self._held = 0
        """Jobs of bulk calls that are held."""
        self._done = _DoneRate()
        self._soon = Shares()
        self._later = Shares()

    def heard(self, load: SystemLoad, apis: int = 1, *, since: int = 0, now: float = 0.0) -> None:
        """`since`: of the jobs accepted here, how many the heartbeats cannot have counted."""
        self.load, self.apis, self._unheard = load, max(1, apis), since
        self._heard_at = now
        self._done.heard(load, now, held=self._held > 0)

    @property
    def horizon_seconds(self) -> float:
        """What is due later than this makes no work before the system is on time again."""
        return max(self.load.drain_seconds(self._unheard), DRAIN_LIMIT_SECONDS)

    def slows(self, namespace: str) -> bool:
        """Whether what makes work soon is accepted at a rate, or not at all."""
        return self._is_behind or namespace in self.load.crowded

    @property
    def _is_behind(self) -> bool:
        return self.load.drain_seconds(self._unheard) > DRAIN_LIMIT_SECONDS

    def hold(self, count: int, now: float, *, soon: bool) -> float:
        """How many seconds a bulk call of so many jobs is held before it is taken; to be released then.

        Whoever is held has its turn after those that were before it. What was done since the load was heard of is
        reckoned by the rate: heartbeats are half a second old, and in that time more comes in than may wait."""
        if soon:
            rate = self.soon_rate
            ahead = max(0.0, self.load.to_drain + self._unheard - rate * (now - self._heard_at))
        else:
            rate = max(self.load.intake_rate, _LATER_RATE)
            ahead = self.load.unread + self._unheard
        seconds = (ahead + self._held) / rate - _UNHELD_SECONDS
        self._held += count
        return min(max(0.0, seconds), _LONGEST_HOLD)

    @property
    def soon_rate(self) -> float:
        """Jobs a second that bulk calls are let in at, if they are due soon."""
        return self._done.per_second

    def release(self, count: int) -> None:
        self._held -= count

    @property
    def slows_all(self) -> bool:
        """Whether jobs of the far future are accepted at a rate, too."""
        return self.load.read_seconds(self._unheard) > DRAIN_LIMIT_SECONDS

    def asked(self, namespace: str, now: float, *, only_soon: bool) -> Refusal | None:
        """Whether nothing of the kind could be accepted now, whatever it is. Takes nothing."""
        soon = self._check(namespace, self._soon, "saturated", now)
        if soon is None or only_soon:
            return soon
        return self._check(namespace, self._later, "unread", now)

    def take(self, namespace: str, now: float, *, soon: int = 0, later: int = 0) -> Refusal | None:
        """All of them, or none."""
        refusal = self._check(namespace, self._soon, "saturated", now) if soon else None
        if refusal is None and later:
            refusal = self._check(namespace, self._later, "unread", now)
        if refusal is not None:
            return refusal
        if soon and self._is_behind:
            self._soon.take(namespace, soon, self.load.rate / self.apis, now)
        if later and self.slows_all:
            self._later.take(namespace, later, self.load.intake_rate / self.apis, now)
        self._unheard += soon + later
        self.accepted_in_all += soon + later
        self.accepted.add(soon + later, now)
        return None

    def _check(self, namespace: str, shares: Shares, reason: Reason, now: float) -> Refusal | None:
        if reason == "saturated" and (waiting := self.load.crowded.get(namespace)):
            return Refusal(
                reason="crowded", retry_after=ceil(_LONGEST_WAIT * self._spread()), waiting=waiting
            )
        shares.asks(namespace, now)
        rate, seconds = (
            (self.load.rate, self.load.drain_seconds(self._unheard))
            if reason == "saturated"
            else (self.load.intake_rate, self.load.read_seconds(self._unheard))
        )
        wait = shares.wait(namespace, rate / self.apis, now) if seconds > DRAIN_LIMIT_SECONDS else 0.0
        if not wait:
            return None
        wait = max(1.0, min(max(wait, seconds / _PART_OF_DRAIN), _LONGEST_WAIT))
        return Refusal(
            reason=reason,
            drain_seconds=round(seconds, 1),
            jobs_per_second=round(rate, 1),
            retry_after=ceil(wait * self._spread()),
        )


class _DoneRate:
    """How much is done a second at the most, by what the heartbeats have shown lately. It is looked for as a sender
    looks for the width of a line: what ends tells only as long as too much is offered."""

    def __init__(self) -> None:
        self.per_second = _SOON_RATE
        self._shown_at: float | None = None

    def heard(self, load: SystemLoad, now: float, *, held: bool) -> None:
        if load.drain_seconds() > _TOO_MUCH_SECONDS:
            self.per_second, self._shown_at = max(load.rate, self.per_second * _LESS), now
        elif self._shown_at is None or now - self._shown_at > _FORGOTTEN_SECONDS:
            self.per_second, self._shown_at = max(_SOON_RATE, load.rate), None
        elif held:
            most = max(_SOON_RATE, load.rate * _MOST)
            self.per_second, self._shown_at = min(self.per_second * _MORE, most), now


class RecentRate:
    """How many a second, over the last seconds."""

    _SECONDS = 10

    def __init__(self) -> None:
        self._counts: deque[tuple[int, int]] = deque()

    def add(self, count: int, now: float) -> None:
        second = int(now)
        if self._counts and self._counts[-1][0] == second:
            count += self._counts.pop()[1]
        self._counts.append((second, count))
        self._forget(second)

    def per_second(self, now: float) -> float:
        self._forget(int(now))
        return sum(count for _, count in self._counts) / self._SECONDS

    def _forget(self, second: int) -> None:
        while self._counts and self._counts[0][0] <= second - self._SECONDS:
            self._counts.popleft()
