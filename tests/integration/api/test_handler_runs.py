"""Runs of handlers as users see them: how far they are, and why one did not start."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from waterclock.core.runtime.data_directory import resolved
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.executor import Context, Worker
from waterclock.executor.service import Executor
from waterclock.proto.answers import Run

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def served_by(house: Served, worker: Worker) -> AsyncIterator[None]:
    stop = StopSignal()
    executor = Executor(resolved(house.settings, "executor"), [worker], processes=False)
    running = asyncio.create_task(executor.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def once(house: Served, job_id: str, **wanted: Any) -> Run:
    """The job's only run, as soon as it looks like this."""
    deadline = time.monotonic() + 20
    while True:
        runs = (await house.client.runs.list(job_id)).items
        if runs and all(getattr(runs[0], name) == value for name, value in wanted.items()):
            return runs[0]
        assert time.monotonic() < deadline, runs
        await asyncio.sleep(0.05)


async def test_how_far_a_handler_is_can_be_watched_and_read_until_it_ends(house: Served) -> None:
    worker, seen = Worker(), asyncio.Event()

    @worker.handler("crunch")
    async def crunch(context: Context, payload: Any) -> dict[str, int]:
        context.progress(0.4, "2 of 5 chunks")
        await seen.wait()
        return {"chunks": 5}

    async with served_by(house, worker):
        job = await house.client.jobs.create(name="crunch", job_type="crunch")
        born = (await house.client.jobs.get(job.job_id)).created_at
        async with asyncio.timeout(20):
            async for change in house.client.runs.watch(job.job_id, since=born):
                if change.type == "reported":
                    break
        assert (change.status, change.progress, change.reason) == ("RUNNING", 0.4, "2 of 5 chunks")
        run = await once(house, job.job_id, output={"progress": 0.4, "note": "2 of 5 chunks"})
        assert run.status == "RUNNING"
        seen.set()
        run = await once(house, job.job_id, status="SUCCESS")
    assert run.output == {"chunks": 5}
    why = await house.client.runs.why(run.run_id)
    assert "attempt 1 is 40% done: 2 of 5 chunks" in [step.what for step in why.steps]


async def test_a_run_that_found_no_executor_in_time_is_missed_and_says_so(house: Served) -> None:
    worker, ran = Worker(), asyncio.Event()

    @worker.handler("punctual")
    async def punctual(context: Context, payload: Any) -> None:
        ran.set()

    job = await house.client.jobs.create(name="punctual", job_type="punctual", start_deadline_seconds=2)
    run = await once(house, job.job_id, status="QUEUED")
    assert run.due_time is not None
    await asyncio.sleep(max(0.0, run.due_time.timestamp() + 2.1 - time.time()))
    async with served_by(house, worker):
        run = await once(house, job.job_id, status="MISSED")
    assert run.reason is not None
    assert run.reason.startswith("start deadline of 2 s passed in the queue")
    assert not ran.is_set()
    why = await house.client.runs.why(run.run_id)
    assert why.reason == "missed"
    assert run.reason in why.answer
