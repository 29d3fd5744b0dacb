"""What the machine does in this very run when it is not overloaded: everything else is a ratio to it."""

import asyncio
import time

from msgspec import Struct

from bench import jobs
from bench.overload.flood import offered, soon
from bench.overload.offer import Offer
from bench.overload.outcomes import Outcomes
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
    """Runs a second."""

    submit: float
    """Bulk submits of immediates, until they are in Postgres."""
    fires: float
    """A crowd due at one instant, stored before it."""
    single: float
    """One job a request."""
    others_percent: float = 0.0
    """What the rest of the machine took meanwhile, in percent of a core."""

    def result(self) -> Result:
        return Result(
            name="overload/peak",
            figures={
                "submit_per_second": round(self.submit),
                "fires_per_second": round(self.fires),
                "single_per_second": round(self.single),
                "others_percent": self.others_percent,
            },
        )


async def measure_peak(plan: Plan) -> Peak:
    async with running_system() as system:
        await warm_up(system)
        rounds = range(plan.choose(_ROUNDS, quick=2))
        async with watched(system) as watch:
            submit = max([await measure_submit(system, plan.count(100_000, quick=40_000)) for _ in rounds])
            fires = max([await _fires(system, plan.count(60_000, quick=30_000)) for _ in rounds])
            single = await _single(system, plan.choose(10.0, quick=4.0))
            others = watch.others_percent()
        return Peak(submit=submit, fires=fires, single=single, others_percent=others)


async def measure_submit(system: System, count: int) -> float:
    before = await system.history.succeeded()
    began = time.time()
    await jobs.submit(system.clock, [jobs.immediate()] * count)
    done = await system.history.until_succeeded(before + count, within=120, poll=0.05) - before
    return done / (time.time() - began)


async def _fires(system: System, count: int) -> float:
    before = await system.history.succeeded()
    due = time.time() + count / _STORED_AT + 2.0
    await jobs.submit(system.clock, jobs.spread(count, due, 0.0))
    await asyncio.sleep(max(0.0, due - time.time()))
    done = await system.history.until_succeeded(before + count, within=120, poll=0.05) - before
    return done / (time.time() - due)


async def _single(system: System, seconds: float) -> float:
    offer = Offer(data=str(system.data), way="single", begin=soon(), seconds=seconds, callers=SINGLE_CALLERS)
    outcomes = Outcomes(system.history, since=offer.begin - 0.5)
    answers = await offered(offer)
    await outcomes.until_ended(answers.accepted, within=60)
    account = await outcomes.of_one_shots(answers.accepted)
    return answers.accepted / max(answers.seconds, account.last_end - offer.begin)
