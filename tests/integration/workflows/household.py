"""The whole program over REST, as a user starts it; its scheduler can be killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

ENDED = ("SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED")


class Household:
    def __init__(self, data: Path, http: httpx.AsyncClient) -> None:
        self.data = data
        self.http = http

    async def define(self, **fields: Any) -> str:
        answer = await self.http.post("/v1/workflows", json=fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["workflow_id"])

    async def start(self, workflow_id: str, **parameters: Any) -> str:
        answer = await self.http.post(f"/v1/workflows/{workflow_id}/runNow", json={"parameters": parameters})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["workflow_run_id"])

    async def wave(self, run_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/v1/workflow-runs/{run_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def ended(self, run_id: str, deadline: float = 40.0) -> dict[str, Any]:
        async with asyncio.timeout(deadline):
            while (wave := await self.wave(run_id))["status"] not in ENDED:
                await asyncio.sleep(0.05)
        return wave

    async def runs(self, job_id: str, count: int, deadline: float = 40.0) -> list[dict[str, Any]]:
        """A job's runs, newest first, once so many have ended."""
        async with asyncio.timeout(deadline):
            while True:
                found: list[dict[str, Any]] = (await self.http.get(f"/v1/jobs/{job_id}/runs")).json()
                if len([run for run in found if run["status"] in ENDED]) >= count:
                    return found
                await asyncio.sleep(0.05)

    def kill_scheduler(self) -> None:
        processes = json.loads((self.data / "processes.json").read_text())
        for pid in processes["scheduler"]:
            os.kill(pid, signal.SIGKILL)


def nodes(wave: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in wave["nodes"]}


def statuses(wave: dict[str, Any]) -> dict[str, str]:
    return {node["id"]: node["status"] for node in wave["nodes"]}


@asynccontextmanager
async def household(data: Path) -> AsyncIterator[Household]:
    up = await asyncio.to_thread(_start, data)
    try:
        connection = json.loads((data / "connection.json").read_text())
        headers = {"Authorization": f"Bearer {connection['token']}"} if connection.get("token") else {}
        async with httpx.AsyncClient(base_url=connection["http"], headers=headers, timeout=20) as http:
            yield Household(data, http)
    finally:
        up.send_signal(signal.SIGTERM)
        await asyncio.to_thread(up.wait, 40)
    log = (data / "logs" / "nats.log").read_text()
    assert [line for line in log.splitlines() if "Violation" in line] == [], (
        "a component tried what it may not"
    )


def _start(data: Path) -> subprocess.Popen[bytes]:
    log = data.parent / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            [sys.executable, "-m", "waterclock.api.cli", "up", "--data", str(data), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=output,
        )
    assert up.stdout is not None
    for line in up.stdout:
        if line.startswith(b"ready:"):
            return up
    raise AssertionError(f"never ready: {log.read_text()[-2000:]}")
