"""What the machine does in this very run when it is not overloaded: everything else is a ratio to it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from bench import jobs
from bench.overload.flood import offered, soon
from bench.overload.offer import Offer
from bench.overload.outcomes import Outcomes
from bench.overload.speed import Best, Speedometer, speedometer
from bench.overload.watch import watched
from bench.plan import Plan
from bench.result import Result
from bench.system import System, running_system
from bench.warm_up import warm_up

SINGLE_CALLERS = 64
_STORED_AT = 2_500
_ROUNDS = 3
"""The best of so many is the peak: one that was disturbed would flatter all that is divided by it."""


class Peak(Struct, frozen=True, kw_only=True):
    submit: Best
    """Bulk submits of immediates, until they are in Postgres."""
    fires: Best
    """A crowd of one-shots due at one instant, stored before it."""
    recurring: Best
    """The same of recurring jobs: each of them is put away again for its next fire."""
    single: Best
    """One job a request."""
    others_percent: float = 0.0
    """What the rest of the machine took meanwhile, in percent of a core."""

    def result(self) -> Result:
        return Result(
            name="overload/peak",
            figures={
                "submit_per_second": round(self.submit.per_second),
                "fires_per_second": round(self.fires.per_second),
                "recurring_per_second": round(self.recurring.per_second),
                "single_per_second": round(self.single.per_second),
                "others_percent": self.others_percent,
            },
        )


async def measure_peak(plan: Plan) -> Peak:
    async with running_system() as system:
        await warm_up(system)
        rounds = range(plan.choose(_ROUNDS, quick=2))
        async with watched(system) as watch, speedometer() as speed:
            submit = best(
                [await measure_submit(system, plan.count(100_000, quick=40_000), speed) for _ in rounds]
            )
            crowd = plan.count(60_000, quick=30_000)
            fires = best([await _fires(system, jobs.at, crowd, speed) for _ in rounds])
            recurring = best([await _fires(system, jobs.daily_from, crowd, speed) for _ in rounds])
            single = await _single(system, plan.choose(10.0, quick=4.0), speed)
            others = watch.others_percent()
        return Peak(submit=submit, fires=fires, recurring=recurring, single=single, others_percent=others)


def best(rounds: list[Best]) -> Best:
    return max(rounds, key=lambda each: each.per_second)


async def measure_submit(system: System, count: int, speed: Speedometer) -> Best:
    before = await system.history.succeeded()
    began = time.time()
    await jobs.submit(system.clock, [jobs.immediate()] * count)
    done = await system.history.until_succeeded(before + count, within=120, poll=0.05) - before
    ended = time.time()
    return Best(done / (ended - began), speed.between(began, ended))


async def _fires(
    system: System, job: Callable[[float], dict[str, Any]], count: int, speed: Speedometer
) -> Best:
    before = await system.history.succeeded()
    due = time.time() + count / _STORED_AT + 2.0
    await jobs.submit(system.clock, [job(due)] * count)
    await asyncio.sleep(max(0.0, due - time.time()))
    done = await system.history.until_succeeded(before + count, within=120, poll=0.05) - before
    ended = time.time()
    return Best(done / (ended - due), speed.between(due, ended))


async def _single(system: System, seconds: float, speed: Speedometer) -> Best:
    offer = Offer(data=str(system.data), way="single", begin=soon(), seconds=seconds, callers=SINGLE_CALLERS)
    outcomes = Outcomes(system.history, since=offer.begin - 0.5)
    answers = await offered(offer)
    await outcomes.until_ended(answers.accepted, within=60)
    account = await outcomes.of_one_shots(answers.accepted)
    lasted = max(answers.seconds, account.last_end - offer.begin)
    return Best(answers.accepted / lasted, speed.between(offer.begin, offer.begin + lasted))
