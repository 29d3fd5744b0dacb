"""A process dies, or stands still, in the middle of a flood."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from bench import servers
from bench.overload.flood import TIMES, Flood, flood, soon
from bench.overload.offer import Offer
from bench.overload.outcomes import Outcomes
from bench.overload.peak import Peak, measure_submit
from bench.overload.speed import Best, speedometer
from bench.plan import Plan
from bench.result import Figure, Result
from bench.system import System, running_system
from bench.warm_up import warm_up
from waterclock.core.jetstream.connection import Connection
from waterclock.proto import names

_SHARE = 0.4
"""Of the flood has passed when it happens."""
_STOPPED = 5.0
_NODE_BACK = 5.0

Fault = Callable[[], Awaitable[float]]
"""Does it; the moment from which on the system could go on."""


async def kill_scheduler(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    yield await _killed(plan, peak, "scheduler")


async def kill_nats(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    yield await _killed(plan, peak, "nats")


async def kill_executor(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    yield await _killed(plan, peak, "executor")


async def stop_scheduler(plan: Plan, peak: Peak) -> AsyncGenerator[Result, None]:
    """Of the only one: nobody can have taken its partitions, so that nothing is to be built anew."""
    async with running_system() as system:
        await warm_up(system)

        async def stop() -> float:
            (pid,) = system.processes["scheduler"]
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(_STOPPED)
            finally:
                os.kill(pid, signal.SIGCONT)
            return time.time()

        yield await _struck(system, "stop_scheduler", _length(plan), peak.submit, stop, lasts=_STOPPED)


async def kill_leader(plan: Plan, _peak: Peak) -> AsyncGenerator[Result, None]:
    """Three nodes on the same two cores are slower: what counts is the ratio to their own peak."""
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory,
        servers.nats_cluster(Path(directory)) as nodes,
    ):
        url = ",".join(node.url for node in nodes.values())
        async with running_system("--nats-url", url, WATERCLOCK_REPLICAS="3") as system:
            await warm_up(system)
            async with speedometer() as speed:
                own = await measure_submit(system, plan.count(30_000, quick=10_000), speed)

            async def kill() -> float:
                async with Connection.open(url, name="bench") as connection:
                    info = await connection.api(f"STREAM.INFO.{names.RUNS}")
                leader = nodes[info["cluster"]["leader"]]
                leader.kill()
                at = time.time()
                await asyncio.sleep(_NODE_BACK)
                leader.start()
                return at

            yield await _struck(system, "kill_leader", _length(plan), own, kill)


async def _killed(plan: Plan, peak: Peak, component: str) -> Result:
    async with running_system() as system:
        await warm_up(system)

        async def kill() -> float:
            os.kill(system.processes[component][0], signal.SIGKILL)
            return time.time()

        return await _struck(system, f"kill_{component}", _length(plan), peak.submit, kill)


async def _struck(
    system: System, name: str, seconds: int, peak: Best, fault: Fault, *, lasts: float = 0.0
) -> Result:
    moments: list[float] = []

    async def strike(begin: float) -> None:
        await asyncio.sleep(begin + _SHARE * seconds - time.time())
        moments.append(await fault())

    offer = Offer(data=str(system.data), begin=soon(), seconds=seconds, rate=TIMES * peak.per_second)
    found = await flood(system, offer, peak, meanwhile=strike)
    of_scheduler = name.endswith("_scheduler")
    return found.result(name, **await _after(system, found, moments[0], lasts, of_scheduler=of_scheduler))


async def _after(
    system: System, found: Flood, moment: float, lasts: float, *, of_scheduler: bool
) -> dict[str, Figure]:
    outcomes = Outcomes(system.history, since=found.begin - 0.5)
    queued = await outcomes.first_after("queued_time", moment)
    started = await outcomes.first_after("start_time", moment)
    gap = await outcomes.longest_gap(moment - lasts, max(found.account.last_end, moment))
    return {
        "others_percent": None,  # what a killed process had used is in nobody's account
        "fault_at_s": round(moment - lasts - found.begin, 2),
        "fault_lasted_s": lasts,
        # The scheduler stamps what it decides, also while it cannot write it: this tells only of its own death.
        "first_decision_s": round(queued, 2) if queued is not None and of_scheduler else None,
        "first_start_s": None if started is None else round(started, 2),
        "longest_without_start_s": round(gap, 2),
    }


def _length(plan: Plan) -> int:
    return plan.seconds or (10 if plan.smoke else plan.choose(60, quick=20))
