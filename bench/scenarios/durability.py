"""What it costs that an acknowledgement means "on disk": `sync_interval: always` against the server's default."""

import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from bench import accounting, jobs, servers
from bench.plan import Plan
from bench.quantiles import quantile
from bench.result import Result
from bench.system import running_system

_SETTINGS = {"always": "always", "default_2_min": None}


async def durability(plan: Plan) -> AsyncGenerator[Result, None]:
    count = plan.count(40_000, quick=8_000)
    for name, sync in _SETTINGS.items():
        with (
            tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory,
            servers.nats(Path(directory) / "nats", sync=sync) as nats,
        ):
            async with running_system("--nats-url", nats.url) as system:
                await jobs.submit(system.clock, [jobs.immediate()] * 500)
                await system.history.until_succeeded(500, within=30)
                answers = []
                for _ in range(plan.choose(500, quick=100)):
                    began = time.perf_counter()
                    await system.clock.jobs.create(**jobs.at(time.time() + 365 * 86_400))
                    answers.append(time.perf_counter() - began)
                pids = {**system.processes, "nats": [nats.pid]}
                opening = accounting.take(pids)
                began = time.perf_counter()
                await jobs.submit(system.clock, [jobs.immediate()] * count)
                done = await system.history.until_succeeded(500 + count, within=120) - 500
                seconds = time.perf_counter() - began
                yield Result(
                    name=f"durability/{name}",
                    figures={
                        "jobs": done,
                        "missing": count - done,
                        "rate": round(done / seconds),
                        "answer_p50_ms": round(quantile(sorted(answers), 0.5) * 1000, 2),
                    },
                    cpu=accounting.per_thousand(opening, accounting.take(pids), count),
                )
