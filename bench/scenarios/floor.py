"""The bare JetStream floor: the messages of a fired run, sent by the same client, with no logic in between.

Three processes as there are three components: one appends the queued events in frames and publishes the work, one
pulls the work, appends the outcomes in frames and acks, one reads all frames. No decision, no handler, no Postgres.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from bench import accounting, servers
from bench.plan import Plan
from bench.result import Result
from bench.system import ROOT

_ROLES = ("read", "execute", "decide")
_WITHIN = 120.0


async def floor(plan: Plan) -> AsyncGenerator[Result, None]:
    count = plan.count(100_000, quick=20_000)
    for name, sync in (("always", "always"), ("default_2_min", None)):
        with (
            tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory,
            servers.nats(Path(directory) / "nats", sync=sync) as nats,
        ):
            yield await _measure(f"floor/{name}", nats, count)


async def _measure(name: str, nats: servers.Server, count: int) -> Result:
    processes = {}
    try:
        for role in ("prepare", *_ROLES):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.bare_jetstream", role, nats.url, str(count)),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            processes[role] = process
            assert process.stdout is not None
            await asyncio.wait_for(process.stdout.readline(), _WITHIN)
        pids = {"nats": [nats.pid], **{role: [processes[role].pid] for role in _ROLES}}
        opening = accounting.take(pids)
        began = time.perf_counter()
        decide = processes["decide"].stdin
        assert decide is not None
        decide.write(b"go\n")
        reader = processes["read"].stdout
        assert reader is not None
        await asyncio.wait_for(reader.readline(), _WITHIN)
        seconds = time.perf_counter() - began
        cpu = accounting.per_thousand(opening, accounting.take(pids), count)
    finally:
        for process in processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
    return Result(name=name, figures={"jobs": count, "rate": round(count / seconds)}, cpu=cpu)
