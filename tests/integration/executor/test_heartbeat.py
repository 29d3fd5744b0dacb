"""What an executor says about itself while it lives."""

import asyncio
import os
from typing import Any

import msgspec

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Worker
from waterclock.proto import names
from waterclock.proto.events import RunSucceeded
from waterclock.proto.heartbeats import ExecutorHeartbeat, Progress
from waterclock.proto.spec import Handler


async def heartbeat(owner: FakeOwner, executor_id: str) -> ExecutorHeartbeat | None:
    control = Bucket(owner.connection, owner.publisher, names.CONTROL)
    entry = await control.get(names.member_key("executor", executor_id))
    return None if entry is None else msgspec.json.decode(entry.value, type=ExecutorHeartbeat)


async def test_it_shows_what_it_serves_and_runs_and_is_gone_when_it_left(
    owner: FakeOwner, settings: Settings
) -> None:
    worker = Worker(queue="mail", tier="medium", slots=3)
    gate = asyncio.Event()

    @worker.handler("wait")
    async def wait(context: Context, payload: Any) -> None:
        context.progress(0.5, "half way")
        await gate.wait()

    async with running_executor(
        msgspec.structs.replace(settings, slots=5, tier="light"), [worker]
    ) as executor:
        item = await owner.submit(Handler(handler="wait"), queue="mail", tier="medium")

        async def shown() -> bool:
            beat = await heartbeat(owner, executor.executor_id)
            return beat is not None and beat.running == [item.run_id]

        await eventually(shown, "the run in the heartbeat")
        beat = await heartbeat(owner, executor.executor_id)
        assert beat is not None
        assert (beat.pid, beat.tier, beat.state) == (os.getpid(), "medium", "running")
        assert (beat.queues, beat.handlers) == (["default", "mail"], ["wait"])
        assert (beat.slots, beat.used, beat.more) == (8, 1, False)
        assert beat.progress == {item.run_id: Progress(done=0.5, note="half way")}
        gate.set()
        await owner.end_of(item, RunSucceeded)
    assert await heartbeat(owner, executor.executor_id) is None


async def test_what_it_counts_can_be_scraped(owner: FakeOwner, settings: Settings) -> None:
    from prometheus_client import REGISTRY, generate_latest

    worker = Worker(slots=3)

    @worker.handler("quick")
    async def quick(context: Context, payload: Any) -> None: ...

    async with running_executor(settings, [worker], processes=False):
        item = await owner.submit(Handler(handler="quick"))
        await owner.end_of(item, RunSucceeded)
        text = generate_latest(REGISTRY).decode()
    assert 'waterclock_executor_outcomes_total{outcome="succeeded"} 1.0' in text
    assert 'waterclock_executor_slots{state="total"} 3.0' in text
    assert "waterclock_executor_start_lag_seconds_count 1.0" in text
