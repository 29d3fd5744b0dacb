"""Bulk submits of immediate jobs: until all are accepted, and until all have run and are in Postgres."""

import asyncio
import http.client
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from urllib.parse import urlsplit

from bench import accounting, jobs
from bench.plan import Plan
from bench.result import Result
from bench.system import System, running_system
from bench.warm_up import warm_up

_REST_LINES = 5_000
_REST_CALLS = 2


async def submit(plan: Plan) -> AsyncGenerator[Result, None]:
    count = plan.count(100_000, quick=20_000)
    for way, send in (("nats", over_nats), ("rest", over_rest)):
        async with running_system() as system:
            await warm_up(system)
            yield await measure(system, f"submit/{way}_bulk", count, send)


async def measure(
    system: System, name: str, count: int, send: Callable[[System, int], Awaitable[None]]
) -> Result:
    before = await system.history.succeeded()
    opening = system.account()
    began = time.perf_counter()
    await send(system, count)
    accepted = time.perf_counter() - began
    done = await system.history.until_succeeded(before + count, within=120) - before
    seconds = time.perf_counter() - began
    cpu = accounting.per_thousand(opening, system.account(), count)
    return Result(
        name=name,
        figures={
            "jobs": done,
            "missing": count - done,
            "rate": round(done / seconds),
            "accepted_rate": round(count / accepted),
            "seconds": round(seconds, 2),
        },
        cpu=cpu,
    )


async def over_nats(system: System, count: int) -> None:
    await jobs.submit(system.clock, [jobs.immediate()] * count)


async def over_rest(system: System, count: int) -> None:
    line = json.dumps(jobs.immediate()) + "\n"
    sizes = [min(_REST_LINES, count - begun) for begun in range(0, count, _REST_LINES)]
    await asyncio.gather(
        *(
            asyncio.to_thread(_post, system.connection, line, sizes[each::_REST_CALLS])
            for each in range(_REST_CALLS)
        )
    )


def _post(connection: dict[str, str], line: str, sizes: list[int]) -> None:
    client = http.client.HTTPConnection(urlsplit(connection["http"]).netloc, timeout=120)
    headers = {"Authorization": f"Bearer {connection['token']}", "Content-Type": "application/x-ndjson"}
    try:
        for size in sizes:
            client.request("POST", "/v1/jobs:batch", line * size, headers)
            answer = client.getresponse()
            results = answer.read().splitlines()
            if answer.status != 200 or len(results) != size or b'"job_id"' not in results[-1]:
                raise RuntimeError(f"REST batch: {answer.status}, {len(results)} results, {results[-1:]!r}")
    finally:
        client.close()
