"""Which of the fires that came due are taken, and which are missed. The only place that decides it.

While no fire is more than `GRACE` late all are on time: a takeover or a restart drops nothing. Beyond that there was a
downtime, and the job's policy applies to all that came due in it. The number of events is bounded whatever its length.
"""

from msgspec import Struct

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.schedule.fires import Fires
from waterclock.proto.events import Instant
from waterclock.proto.policies import CatchUp

GRACE = 10_000_000
_PUNCTUAL = 1_000_000
"""At most so late is a fire that came due after the downtime and not in it."""
LIMIT = 1000
"""How many fires one catch-up of `all` takes; what is older is missed."""
SINGLY = 20
"""So many missed fires each have an entry of their own in the history; more of them share one."""
COUNT_LIMIT = 10_000
"""How far missed fires are counted one by one."""


class Missed(Struct, frozen=True):
    first: Instant
    last: Instant
    count: int
    reason: str


class CatchUpDecision(Struct, frozen=True):
    taken: tuple[Instant, ...]
    missed: tuple[Missed, ...] = ()
    caught_up: bool = False
    """The taken fires are late ones that were asked for by `all`."""


def decide_catch_up(
    fires: Fires, after: Instant, until: Instant, policy: CatchUp, now: Instant
) -> CatchUpDecision:
    """Among the fires in (after, until], decided at `now`."""
    on_time = max(after + 1, now - GRACE)
    first = fires.after(after)
    if first is None or first.scheduled > until:
        return CatchUpDecision(())
    if first.scheduled >= on_time:
        return CatchUpDecision(tuple(fire.scheduled for fire in fires.between(first.scheduled, until + 1)))
    window = now - int(policy.window_seconds * SECOND)
    match policy.policy:
        case "none":
            punctual = max(after + 1, now - _PUNCTUAL)
            taken = [fire.scheduled for fire in fires.between(punctual, until + 1)]
            return _split(fires, first.scheduled, taken, until, "catch-up none: nobody decided it in time")
        case "latest":
            latest = fires.previous(until)
            if latest is None or latest.scheduled < max(window, after + 1):
                reason = f"catch-up latest: older than the window of {policy.window_seconds:g} s"
                return _split(fires, first.scheduled, [], until, reason)
            reason = "catch-up latest: a later fire was taken"
            return _split(fires, first.scheduled, [latest.scheduled], until, reason)
        case "all":
            start = max(after + 1, window)
            taken = [fire.scheduled for fire in fires.between(start, until + 1, LIMIT + 1)]
            reason = f"catch-up all: older than the window of {policy.window_seconds:g} s"
            if len(taken) > LIMIT:
                taken = _last(fires, until, LIMIT)
                reason = f"catch-up all: more than {LIMIT} fires, the oldest are not taken"
            decision = _split(fires, first.scheduled, taken, until, reason)
            return CatchUpDecision(decision.taken, decision.missed, caught_up=True)


def _last(fires: Fires, until: Instant, count: int) -> list[Instant]:
    found: list[Instant] = []
    at = until
    while len(found) < count and (fire := fires.previous(at)) is not None:
        found.append(fire.scheduled)
        at = fire.scheduled - 1
    return found[::-1]


def _split(
    fires: Fires, first: Instant, taken: list[Instant], until: Instant, reason: str
) -> CatchUpDecision:
    """What is taken, and what came before it as missed: one by one, or as a range."""
    end = taken[0] if taken else until + 1
    last = fires.previous(end - 1)
    if last is None or last.scheduled < first:
        return CatchUpDecision(tuple(taken))
    count = fires.count_between(first, end, COUNT_LIMIT)
    if count <= SINGLY:
        missed = [fire.scheduled for fire in fires.between(first, end)]
        return CatchUpDecision(tuple(taken), tuple(Missed(at, at, 1, reason) for at in missed))
    if count >= COUNT_LIMIT:
        reason += f" ({COUNT_LIMIT} or more fires)"
    return CatchUpDecision(tuple(taken), (Missed(first, last.scheduled, count, reason),))
