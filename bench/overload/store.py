"""Recurring schedules stored as fast as they are accepted, and the scheduler's memory meanwhile."""

import asyncio
import time
from collections.abc import AsyncGenerator

from bench import jobs
from bench.overload.flood import answer_figures, offered, soon
from bench.overload.offer import Offer
from bench.overload.outcomes import Outcomes
from bench.overload.peak import Peak
from bench.overload.watch import watched
from bench.plan import Plan
from bench.quantiles import lag_figures
from bench.result import Result
from bench.system import System, running_system
from bench.warm_up import warm_up

_SLOWEST = 2_000
_PATIENCE = 60.0
"""Schedules that are not stored at this rate, after so many seconds of grace, are given up on."""
_PROBES = 500
"""Immediates sent after the last schedule: when they have run, every partition has read all before them."""


async def store(plan: Plan, _peak: Peak) -> AsyncGenerator[Result, None]:
    count = plan.count(5_000_000, quick=100_000)
    within = _PATIENCE + count / _SLOWEST
    async with running_system() as system:
        await warm_up(system)
        before_mb = system.memory_mb("nats")
        defined = await system.history.definitions()
        offer = Offer(
            data=str(system.data), kind="recurring", begin=soon(), seconds=within, count=count, callers=8
        )
        outcomes = Outcomes(system.history, since=offer.begin - 0.5)
        async with watched(system) as watch:
            answers = await offered(offer)
            probes_open = await _probe(system, outcomes, within)
            wanted = defined + answers.accepted + _PROBES
            stored = await system.history.until_defined(wanted, within=within)
            seconds = time.time() - offer.begin
        lags = await outcomes.lags()
        nats_mb = system.memory_mb("nats")
        yield Result(
            name="overload/store",
            figures={
                "schedules": answers.accepted,
                "not_accepted": count - answers.accepted,
                "stored_per_second": round(answers.accepted / seconds),
                "accepted_per_second": round(answers.accepted / answers.seconds),
                "missing": max(0, wanted - stored),
                "probes_open": probes_open,
                "given_up": watch.given_up,
                "scheduler_mb": watch.peak_mb("scheduler"),
                "nats_mb": nats_mb,
                "nats_bytes_per_schedule": round((nats_mb - before_mb) * 1e6 / max(1, answers.accepted)),
                **answer_figures(answers),
                **(lag_figures(lags) if lags else {}),
                "missed": await outcomes.missed(),
            },
            curve=watch.memory,
        )


async def _probe(system: System, outcomes: Outcomes, within: float) -> int:
    """How many probes have not started when the time is over."""
    sent = await system.clock.jobs.create_many([jobs.immediate()] * _PROBES)
    ids = [result.job_id for result in sent if result.job_id]
    deadline = time.monotonic() + within
    while len(started := await outcomes.starts(ids)) < len(ids) and time.monotonic() < deadline:
        await asyncio.sleep(0.25)
    return _PROBES - len(started)
