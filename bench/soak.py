"""`python -m bench.soak --minutes 30`: a steady load, random kills, and what every process takes meanwhile.

The samples are kept in `docs/soak/samples.jsonl`; `docs/soak.md` is made from them alone (`--report-only`).
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import msgspec

from bench import accounting
from bench.jobs import PAYLOAD
from bench.machine import machine
from bench.soak_report import Sample, Soak, write_soak
from bench.system import start, stop

_TICK = 0.1
_SAMPLE_EVERY = 5.0
_SETTLED_WITHIN = 300.0
_COMPONENTS = ("scheduler", "executor", "projector", "api", "nats", "postgres")


class Soaking:
    def __init__(self, data: Path, rate: int, seed: int) -> None:
        self._data = data
        self._rate = rate
        self._random = random.Random(seed)
        self._began = time.monotonic()
        self._asking: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self.kills: list[tuple[float, str]] = []
        self.samples: list[Sample] = []

    @property
    def connection(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self._data / "connection.json").read_text())
        return found

    @property
    def _elapsed(self) -> float:
        return round(time.monotonic() - self._began, 1)

    async def submit(self, http: httpx.AsyncClient) -> None:
        """So many jobs on every tick, whether the last ones were answered or not."""
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        while True:
            task = asyncio.create_task(self._ask(http, number))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
            number += 1
            due += _TICK
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def answered(self) -> None:
        await asyncio.gather(*self._asking)

    async def kill(self, every: float) -> None:
        """One process after the other, at random. What is killed is started again by `up`."""
        while True:
            await asyncio.sleep(every * self._random.uniform(0.5, 1.5))
            component = self._random.choice(_COMPONENTS)
            pids = self._processes().get(component, [])
            if pids:
                os.kill(self._random.choice(pids), signal.SIGKILL)
                self.kills.append((self._elapsed, component))
                print(f"{self._elapsed:7.1f} s  kill -9 {component}", flush=True)

    async def sample(self) -> None:
        while True:
            self.samples.append(
                Sample(
                    at=self._elapsed,
                    accepted=self.accepted,
                    memory_mb={
                        name: round(max(map(accounting.resident_mb, pids), default=0.0), 1)
                        for name, pids in self._processes().items()
                    },
                    disk_mb={
                        name: await asyncio.to_thread(accounting.disk_mb, self._data / name)
                        for name in ("nats", "postgres")
                    },
                )
            )
            await asyncio.sleep(_SAMPLE_EVERY)

    async def _ask(self, http: httpx.AsyncClient, number: int) -> None:
        job = {"name": "noop", "job_type": "noop", "payload": PAYLOAD}
        count = max(1, int(self._rate * _TICK))
        body = "\n".join(json.dumps(job) for _ in range(count))
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"soak-{number}"}
        pause = 0.1
        while True:
            try:
                answer = await http.post("/v1/jobs:batch", content=body, headers=headers)
                if answer.status_code == 200:
                    results = [json.loads(line) for line in answer.text.splitlines()]
                    if all("job_id" in result for result in results):
                        self.accepted += len(results)
                        return
            except (httpx.TransportError, json.JSONDecodeError):
                pass
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.5))
            pause = min(2.0, pause * 2)

    def _processes(self) -> dict[str, list[int]]:
        try:
            found: dict[str, list[int]] = json.loads((self._data / "processes.json").read_text())
        except (OSError, json.JSONDecodeError):
            return {}
        return found


async def soak(minutes: float, rate: int, seed: int, kill_every: float) -> Soak:
    with tempfile.TemporaryDirectory(prefix="waterclock-soak-") as directory:
        data = Path(directory) / "data"
        up = start(data, "--worker", "bench.worker:worker")
        try:
            soaking = Soaking(data, rate, seed)
            connection = soaking.connection
            headers = {"Authorization": f"Bearer {connection['token']}"}
            async with httpx.AsyncClient(base_url=connection["http"], headers=headers, timeout=10) as http:
                async with _running(soaking.sample()):
                    async with _running(soaking.submit(http)), _running(soaking.kill(kill_every)):
                        await asyncio.sleep(minutes * 60)
                    await soaking.answered()
                    ended, others = await _settled(connection["database"], soaking.accepted)
                audit = (await http.get("/v1/audit", timeout=300)).text.strip().splitlines()[-1]
                compared = await http.get("/v1/consistency", params={"sample": 500}, timeout=300)
                result = json.loads(compared.text.strip().splitlines()[-1])
                for each in result.get("disagreements", []):
                    print(f"doors disagree: {each}", flush=True)
            return Soak(
                minutes=minutes,
                rate=rate,
                seed=seed,
                machine=machine(),
                accepted=soaking.accepted,
                succeeded=ended,
                others=others,
                faults=json.loads(audit).get("faults", 0),
                disagreements=0 if result["ok"] else max(1, result.get("count", 1)),
                kills=soaking.kills,
                samples=soaking.samples,
            )
        finally:
            await asyncio.to_thread(stop, up)


async def _settled(database: str, accepted: int) -> tuple[int, dict[str, int]]:
    """How many runs ended well, and what became of the others, once nothing changes any more."""
    counts: dict[str, int] = {}
    deadline = time.monotonic() + _SETTLED_WITHIN
    while counts.get("SUCCESS", 0) < accepted and time.monotonic() < deadline:
        try:
            connection = await asyncpg.connect(database)
            try:
                rows = await connection.fetch(
                    "SELECT status, count(*) FROM waterclock.job_runs GROUP BY status"
                )
            finally:
                await connection.close()
            counts = {row["status"]: row["count"] for row in rows}
        except (OSError, asyncpg.PostgresError):
            pass
        await asyncio.sleep(1)
    return counts.pop("SUCCESS", 0), counts


@asynccontextmanager
async def _running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        if task.done():
            task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=1000, help="runs a second")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kill-every", type=float, default=20, help="seconds between kills, on average")
    parser.add_argument("--report-only", action="store_true")
    arguments = parser.parse_args()
    if arguments.report_only:
        write_soak(None)
        return 0
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    found = asyncio.run(soak(arguments.minutes, arguments.rate, seed, arguments.kill_every))
    write_soak(found)
    print(msgspec.json.encode(found.verdict()).decode())
    return 0 if found.clean else 1


if __name__ == "__main__":
    sys.exit(main())
