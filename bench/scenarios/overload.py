"""Offered three times what it can do: floods, a herd, faults in the middle, fairness, and what idling costs.

`--part` chooses parts and `--seconds` shortens the floods. The peak is measured first in every run, since all the rest
is told as a ratio to it. A part that fails does not keep the others from running.
"""

import contextlib
import traceback
from collections.abc import AsyncGenerator, Callable

from bench.overload.fairness import fairness
from bench.overload.faults import kill_executor, kill_leader, kill_nats, kill_scheduler, stop_scheduler
from bench.overload.floods import flood_nats, flood_rest, flood_spread, herd, single
from bench.overload.idle import idle
from bench.overload.peak import Peak, measure_peak
from bench.overload.speed import Best
from bench.overload.store import store
from bench.plan import Plan
from bench.result import Result

Part = Callable[[Plan, Peak], AsyncGenerator[Result, None]]

PARTS: dict[str, Part] = {
    "flood_rest": flood_rest,
    "flood_nats": flood_nats,
    "flood_spread": flood_spread,
    "herd": herd,
    "single": single,
    "store": store,
    "fairness": fairness,
    "kill_scheduler": kill_scheduler,
    "kill_nats": kill_nats,
    "kill_executor": kill_executor,
    "stop_scheduler": stop_scheduler,
    "kill_leader": kill_leader,
    "idle": idle,
}

_WITHOUT_PEAK = ("store", "idle", "kill_leader")
_UNKNOWN = Peak(submit=Best(0.0), fires=Best(0.0), recurring=Best(0.0), single=Best(0.0))


async def overload(plan: Plan) -> AsyncGenerator[Result, None]:
    chosen = {name: part for name, part in PARTS.items() if name in (plan.parts or PARTS)}
    peak = _UNKNOWN
    if set(chosen) - set(_WITHOUT_PEAK):
        peak = await measure_peak(plan)
        yield peak.result()
    failed = []
    for name, part in chosen.items():
        try:
            async with contextlib.aclosing(part(plan, peak)) as measured:
                async for result in measured:
                    yield result
        except Exception:
            traceback.print_exc()
            failed.append(name)
    if failed:
        raise RuntimeError(f"parts that failed: {', '.join(failed)}")
