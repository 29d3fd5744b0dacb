"""The floods: bulk over NATS and over REST, a herd of recurring jobs, many single callers."""

import time
from collections.abc import AsyncGenerator

from bench.overload.flood import TIMES, flood, soon
from bench.overload.offer import Kind, Offer, Way
from bench.overload.outcomes import Outcomes
from bench.overload.peak import SINGLE_CALLERS, Peak
from bench.plan import Plan
from bench.quantiles import lag_figures
from bench.result import Result
from bench.system import running_system
from bench.warm_up import warm_up

_AHEAD = 5.0
"""So many seconds before it is due a job of a spread flood is offered."""
_EVERY = 5
_HERD_STORED_AT = 2_500


def length(plan: Plan) -> int:
    return plan.seconds or (5 if plan.smoke else plan.choose(120, quick=15))


async def flood_rest(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    yield await _bulk(plan, peak, "flood_rest", "rest", "immediate")


async def flood_nats(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    yield await _bulk(plan, peak, "flood_nats", "nats", "immediate")


async def flood_spread(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    yield await _bulk(plan, peak, "flood_spread", "nats", "spread")


async def single(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    async with running_system() as system:
        await warm_up(system)
        offer = Offer(
            data=str(system.data), way="single", begin=soon(), seconds=length(plan), callers=SINGLE_CALLERS
        )
        found = await flood(system, offer, peak.single)
        yield found.result("single", callers=SINGLE_CALLERS)


async def herd(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    """Recurring jobs that all together fire three times as often as can be run: nobody can be told to wait."""
    count = round(TIMES * peak.recurring.per_second * _EVERY)
    seconds = length(plan)
    async with running_system() as system:
        await warm_up(system)
        first = round(time.time() + count / _HERD_STORED_AT + 10.0)
        offer = Offer(
            data=str(system.data),
            kind="herd",
            begin=soon(),
            seconds=first + seconds - time.time(),
            count=count,
            callers=4,
            every=_EVERY,
            first_fire=first,
            last_fire=first + seconds,
        )
        found = await flood(system, offer, peak.recurring)
        runs = offer.runs(found.answers.accepted)
        lags = await Outcomes(system.history, since=offer.begin - 0.5).lags()
        yield found.result(
            "herd",
            jobs=found.answers.accepted,
            runs_due=runs,
            offered_to_peak=round(runs / seconds / peak.recurring.per_second, 2),
            stored_late_s=round(max(0.0, offer.begin + found.answers.seconds - offer.first_fire), 1),
            **(lag_figures(lags) if lags else {}),
        )


async def _bulk(plan: Plan, peak: Peak, name: str, way: Way, kind: Kind) -> Result:
    async with running_system() as system:
        await warm_up(system)
        begin = soon()
        offer = Offer(
            data=str(system.data),
            way=way,
            kind=kind,
            begin=begin,
            seconds=length(plan),
            rate=TIMES * peak.submit.per_second,
            first_fire=begin + _AHEAD,
        )
        found = await flood(system, offer, peak.submit)
        return found.result(name)
