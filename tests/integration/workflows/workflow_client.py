"""Workflows over REST on the whole program, as a user starts it; its scheduler can be killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from support.program import ENDED, Program, program
from support.waiting import eventually


class WorkflowClient:
    def __init__(self, running: Program, http: httpx.AsyncClient) -> None:
        self.data = running.data
        self.http = http
        self._program = running

    async def define(self, **fields: Any) -> str:
        answer = await self.http.post("/v1/workflows", json=fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["workflow_id"])

    async def start(self, workflow_id: str, **parameters: Any) -> str:
        answer = await self.http.post(f"/v1/workflows/{workflow_id}/runNow", json={"parameters": parameters})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["workflow_run_id"])

    async def workflow_run(self, run_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/v1/workflow-runs/{run_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def ended(self, run_id: str, within: float = 40.0) -> dict[str, Any]:
        return await eventually(
            lambda: self.workflow_run(run_id),
            f"{run_id} to end",
            within,
            wanted=lambda run: run["status"] in ENDED,
        )

    async def runs(self, job_id: str, count: int, within: float = 40.0) -> list[dict[str, Any]]:
        """A job's runs, newest first, once so many have ended."""

        async def found() -> list[dict[str, Any]]:
            runs: list[dict[str, Any]] = (await self.http.get(f"/v1/jobs/{job_id}/runs")).json()
            return runs

        return await eventually(
            found,
            f"{count} runs of {job_id} to end",
            within,
            wanted=lambda runs: len([run for run in runs if run["status"] in ENDED]) >= count,
        )

    def kill_scheduler(self) -> None:
        self._program.kill("scheduler")


def nodes(workflow_run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in workflow_run["nodes"]}


def statuses(workflow_run: dict[str, Any]) -> dict[str, str]:
    return {node["id"]: node["status"] for node in workflow_run["nodes"]}


@asynccontextmanager
async def running_workflows(data: Path) -> AsyncIterator[WorkflowClient]:
    running = program(data)
    started = await asyncio.to_thread(running.__enter__)
    try:
        headers = {"Authorization": f"Bearer {started.connection['token']}"}
        async with httpx.AsyncClient(
            base_url=started.connection["http"], headers=headers, timeout=20
        ) as http:
            yield WorkflowClient(started, http)
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
