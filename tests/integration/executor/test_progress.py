"""What a handler says of its progress, in the log."""

import asyncio
from typing import Any

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Worker
from waterclock.proto.events import RunReported, RunStarted, RunSucceeded
from waterclock.proto.spec import Handler


async def test_a_chatty_handler_is_heard_now_and_then(owner: FakeOwner, settings: Settings) -> None:
    worker, reported = Worker(), asyncio.Event()

    @worker.handler("chat")
    async def chat(context: Context, payload: Any) -> None:
        calls = 0
        while not reported.is_set():
            calls += 1
            context.progress(1 - 1 / calls, f"{calls} of many")
            await asyncio.sleep(0.001)

    @worker.handler("brief")
    async def brief(context: Context, payload: Any) -> None:
        context.progress(1, "done")

    async with running_executor(settings, [worker], processes=False):
        item = await owner.submit(Handler(handler="chat"))
        short = await owner.submit(Handler(handler="brief"))
        await owner.until(
            lambda: len([e for e in owner.of(item) if isinstance(e, RunReported)]) == 2, "two reports"
        )
        reported.set()
        end = await owner.end_of(item, RunSucceeded)
        await owner.end_of(short, RunSucceeded)
    started, *reports, last = owner.of(item)
    assert isinstance(started, RunStarted)
    assert last == end
    assert all(isinstance(report, RunReported) and report.attempt == 1 for report in reports)
    seconds = (end.at - end.started) / 1_000_000
    assert len(reports) <= seconds / 2 + 1
    assert len(owner.of(short)) == 1
