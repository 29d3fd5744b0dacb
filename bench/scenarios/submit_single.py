"""One job a request, over REST and NATS: one after the other, and from many callers at once.

The jobs are due next year, so that what is measured is accepting: answered means on disk.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from bench import accounting, jobs
from bench.plan import Plan
from bench.quantiles import quantile
from bench.rest import Rest
from bench.result import Result
from bench.system import System, running_system

_CALLERS = 64

Call = Callable[[], Awaitable[None]]


async def submit_single(plan: Plan) -> AsyncGenerator[Result, None]:
    seconds = plan.choose(5.0, quick=1.5)
    async with running_system() as system, AsyncExitStack() as stack:
        rest = [await _rest_caller(system, stack) for _ in range(_CALLERS)]
        nats = [_nats_caller(system)] * _CALLERS
        for way, callers in (("rest", rest), ("nats", nats)):
            yield await _measure(system, f"submit_single/{way}_1", callers[:1], seconds)
            yield await _measure(system, f"submit_single/{way}_{_CALLERS}", callers, seconds)


async def _measure(system: System, name: str, callers: list[Call], seconds: float) -> Result:
    opening = system.account()
    began = time.perf_counter()
    taken = await asyncio.gather(*(_calls(each, began + seconds) for each in callers))
    elapsed = time.perf_counter() - began
    ordered = sorted(each for times in taken for each in times)
    return Result(
        name=name,
        figures={
            "callers": len(callers),
            "jobs": len(ordered),
            "rate": round(len(ordered) / elapsed),
            "answer_p50_ms": round(quantile(ordered, 0.5) * 1000, 2),
            "answer_p99_ms": round(quantile(ordered, 0.99) * 1000, 2),
        },
        cpu=accounting.per_thousand(opening, system.account(), len(ordered)),
    )


async def _calls(call: Call, until: float) -> list[float]:
    taken = []
    while (began := time.perf_counter()) < until:
        await call()
        taken.append(time.perf_counter() - began)
    return taken


async def _rest_caller(system: System, stack: AsyncExitStack) -> Call:
    connection = system.connection
    rest = await stack.enter_async_context(Rest.open(connection["http"], connection["token"]))
    body = json.dumps(_next_year()).encode()

    async def call() -> None:
        status = await rest.post("/v1/jobs", body)
        if status != 201:
            raise RuntimeError(f"POST /v1/jobs: {status}")

    return call


def _nats_caller(system: System) -> Call:
    body = _next_year()

    async def call() -> None:
        await system.clock.jobs.create(**body)

    return call


def _next_year() -> dict[str, Any]:
    return jobs.at(time.time() + 365 * 86_400)
