"""One namespace floods; another has ten runs a second and the same priority. How late do they start?"""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from bench import jobs
from bench.overload.flood import TIMES, flood, soon
from bench.overload.floods import length
from bench.overload.offer import Offer
from bench.overload.outcomes import Outcomes
from bench.overload.peak import Peak
from bench.plan import Plan
from bench.quantiles import quantile
from bench.result import Figure, Result
from bench.system import System, running_system
from bench.warm_up import warm_up
from waterclock.api import Client
from waterclock.api.auth.namespaces import scoped

_FLOODER, _MODEST = "flooder", "modest"
_RATE = 10
_SETTLED_WITHIN = 60.0


async def fairness(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    async with running_system() as system:
        await warm_up(system)
        tokens = {
            name: (
                await system.clock.tokens.create(scopes=["read", "submit", "operate"], namespace=name)
            ).token
            for name in (_FLOODER, _MODEST)
        }
        async with Client.connect(
            data=system.data, token=tokens[_MODEST], timeout=60.0, patience=120.0, environ={}
        ) as modest:
            yield await _measure(system, plan, peak, modest, tokens[_FLOODER])


async def _measure(system: System, plan: Plan, peak: Peak, modest: Client, flooder: str | None) -> Result:
    seconds = length(plan)
    begin = float(round(soon(5.0)))
    asked: dict[str, float] = {}
    answers: list[float] = []

    async def ask(begin: float) -> None:
        await _singles(modest, begin, seconds, asked, answers)

    every_second = await _recurring(modest, begin, begin + seconds)
    offer = Offer(
        data=str(system.data),
        begin=begin,
        seconds=seconds,
        rate=TIMES * peak.submit.per_second,
        token=flooder,
    )
    found = await flood(system, offer, peak.submit, meanwhile=ask, namespace=_FLOODER)
    outcomes = Outcomes(system.history, since=begin - 1.0, namespace=_MODEST)
    recurring_due = _RATE * seconds
    await outcomes.until_ended(recurring_due + len(asked), within=_SETTLED_WITHIN)
    starts = await outcomes.starts(list(asked))
    singles = [starts[job] - asked[job] for job in starts]
    recurring = await outcomes.lags(every_second)
    return found.result(
        "fairness",
        recurring_runs=len(recurring),
        recurring_missing=max(0, recurring_due - len(recurring)),
        **_lags("recurring", recurring),
        single_runs=len(singles),
        single_missing=_RATE * seconds - len(singles),
        **_lags("single", singles),
        **_lags("single_answer", answers),
        other_missed=await outcomes.missed(),
    )


async def _recurring(clock: Client, first: float, last: float) -> list[str]:
    span = {
        name: datetime.fromtimestamp(at, UTC).isoformat()
        for name, at in (("start_at", first), ("end_at", last))
    }
    job = {"name": "noop", "job_type": "noop", "every": "1s", "overlap": "allow", **span}
    results = await clock.jobs.create_many([job] * _RATE)
    return [scoped(_MODEST, result.job_id) for result in results if result.job_id]


async def _singles(
    clock: Client, begin: float, seconds: float, asked: dict[str, float], answers: list[float]
) -> None:
    """Ten a second, whether the last ones were answered or not. Their lag counts from when the caller asked."""

    async def one(at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.time()))
        called = time.time()
        accepted = await clock.jobs.create(**jobs.immediate())
        answers.append(time.time() - called)
        asked[scoped(_MODEST, accepted.job_id)] = called

    calls = (one(begin + number / _RATE) for number in range(round(seconds * _RATE)))
    await asyncio.gather(*calls, return_exceptions=True)


def _lags(name: str, values: list[float]) -> dict[str, Figure]:
    ordered = sorted(values)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        f"{name}_{share}_ms": round(quantile(ordered, part) * 1000, 1) if ordered else None
        for share, part in shares.items()
    }
