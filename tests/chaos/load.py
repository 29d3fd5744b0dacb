"""Jobs of every kind at a steady rate, from a client that repeats what was not answered and remembers what was."""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from chaos.effect_store import CheckingStore
from chaos.history import History, Kind, Submitted
from chaos.installation import TOKEN, Installation

ONE_SHOTS: tuple[Kind, ...] = ("command", "handler", "http", "delayed", "retrying", "exactly_once")
PATIENCE = 90.0
"""How long a client goes on asking."""
_ANSWERED = 4.0
_AGAIN = 0.1
_LONGEST_PAUSE = 1.5
_PROGRAM = Path(__file__).with_name("worker.py")


class Load:
    def __init__(
        self, installation: Installation, store: CheckingStore, history: History, prefix: str
    ) -> None:
        self._http = aiohttp.ClientSession(
            installation.url,
            headers={"Authorization": f"Bearer {TOKEN}"},
            connector=aiohttp.TCPConnector(limit=64),
            timeout=aiohttp.ClientTimeout(total=_ANSWERED),
        )
        self._store = store
        self._history = history
        self._prefix = prefix
        self._number = 0
        self._asking: set[asyncio.Task[None]] = set()

    async def begin_schedules(self) -> None:
        """A few that fire every second; they end with `end_schedules`."""
        for number in range(4):
            kind: Kind = "interval" if number < 3 else "cron"
            await self._ask(kind, f"{self._prefix}-{kind}-{number}")

    async def end_schedules(self) -> None:
        """Pause them: what was due by then must have run."""
        for job in self._history.accepted():
            if job.kind in ("interval", "cron") and job.job_id.startswith(self._prefix):
                await self._pause(job.job_id)

    async def offer(self, per_second: float) -> None:
        """Until cancelled, on the beat, whether earlier ones were answered or not."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            kind = ONE_SHOTS[self._number % len(ONE_SHOTS)]
            self._number += 1
            task = asyncio.create_task(self._ask(kind, f"{self._prefix}-{self._number}"))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
            due += 1 / per_second
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def answered(self) -> None:
        """Wait until everything asked for has been accepted, or given up."""
        await asyncio.gather(*self._asking)

    async def close(self) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._http.close()

    async def _post(self, path: str, body: Any) -> tuple[int, str]:
        """Status and text of the answer; 0 if there was none."""
        try:
            async with self._http.post(path, json=body) as answer:
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return 0, ""

    async def _ask(self, kind: Kind, job_id: str) -> None:
        job = Submitted(job_id=job_id, kind=kind, asked=time.monotonic())
        self._history.submitted.append(job)
        body = {"name": kind, "job_id": job_id, "idempotency_key": job_id, **self._definition(kind)}
        pause = _AGAIN
        while time.monotonic() < job.asked + PATIENCE:
            status, text = await self._post("/v1/jobs", body)
            if status in (200, 201):
                job.accepted = time.monotonic()
                return
            # A server that is told to stop answers 500 to whom it cannot serve within its grace.
            assert status in (0, 429, 500, 503), f"{status} {text}"
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _pause(self, job_id: str) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            status, _ = await self._post(f"/v1/jobs/{job_id}/pause", {})
            if status == 200:
                return
            assert time.monotonic() < end, f"{job_id} cannot be paused"
            await asyncio.sleep(_AGAIN)

    def _definition(self, kind: Kind) -> dict[str, Any]:
        payload = {"kind": kind, "port": self._store.port}
        handler: dict[str, Any] = {"job_type": "record", "payload": payload}
        every_one = {"overlap": "allow", "catch_up": {"policy": "all", "window_seconds": 3600}}
        match kind:
            case "command":
                return {"command": ["sh", "-c", "true"], "max_retries": 2}
            case "handler":
                return handler
            case "http":
                url = f"http://127.0.0.1:{self._store.http_port}/effect"
                return {"http": {"url": url, "method": "POST"}, "max_retries": 2}
            case "delayed":
                later = datetime.now(UTC) + timedelta(seconds=2)
                return {**handler, "schedule_type": "FUTURE", "schedule_time": later.isoformat()}
            case "retrying":
                retry = {"initial_seconds": 0.2, "jitter": False}
                return {"job_type": "flaky", "payload": payload, "max_retries": 3, "retry": retry}
            case "exactly_once":
                command = [sys.executable, "-S", "-E", str(_PROGRAM), str(self._store.port)]
                return {"command": command, "delivery": "exactly_once", "max_retries": 5}
            case "interval":
                return {**handler, **every_one, "schedule_type": "INTERVAL", "interval_seconds": 1}
            case "cron":
                return {**handler, **every_one, "schedule_type": "CRON", "cron_expression": "* * * * * *"}


@asynccontextmanager
async def loaded(
    installation: Installation, store: CheckingStore, history: History, *, prefix: str, per_second: float
) -> AsyncIterator[Load]:
    """Under load while the scope lasts. Afterwards every job asked for is answered and no schedule goes on."""
    load = Load(installation, store, history, prefix)
    try:
        await load.begin_schedules()
        offering = asyncio.create_task(load.offer(per_second))
        try:
            yield load
        finally:
            offering.cancel()
            await asyncio.gather(offering, return_exceptions=True)
        await load.answered()
        await load.end_schedules()
    finally:
        await load.close()
