"""Concurrency keys and rates, across executors."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from executor_rig.process import executor_process
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Worker
from waterclock.proto.events import RunCancelled, RunSnoozed, RunSucceeded
from waterclock.proto.spec import Handler, Shell


class Room:
    """Counts who is inside."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.worker = Worker(slots=20)
        self.worker.handler("enter")(self.enter)

    async def enter(self, context: Context, payload: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.05)
        self.inside -= 1


async def test_no_more_than_the_limit_run_at_a_time_on_all_executors(
    owner: FakeOwner, settings: Settings
) -> None:
    room = Room()
    async with (
        running_executor(settings, [room.worker], processes=False),
        running_executor(settings, [room.worker], processes=False),
    ):
        items = [
            owner.item(Handler(handler="enter"), concurrency_key="a key.with > odd *", concurrency_limit=3)
            for _ in range(9)
        ]
        free = [owner.item(Handler(handler="enter")) for _ in range(3)]
        await owner.give(*items, *free)
        for item in items:
            await owner.end_of(item, RunSucceeded)
    assert 3 <= room.most <= 6, "three with the key, three without"


async def test_one_that_cannot_wait_here_comes_back_later_uncounted(
    owner: FakeOwner, settings: Settings
) -> None:
    room = Room()
    async with running_executor(settings, [room.worker], processes=False):
        items = [owner.item(Handler(handler="enter"), concurrency_key="narrow") for _ in range(20)]
        await owner.give(*items)
        await owner.until(lambda: len(owner.events) >= 20, "twenty ends")
    assert room.most == 1
    snoozed = [event for event in owner.events if isinstance(event, RunSnoozed)]
    assert snoozed
    assert snoozed[0].reason == "1 with the key narrow are running"


async def test_a_dead_executor_leaves_no_place_taken(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    async with executor_process(settings) as doomed:
        first = await owner.submit(Shell(command="sleep 300"), concurrency_key="narrow")
        await owner.start_of(first)
        doomed.send(signal.SIGKILL)
    async with running_executor(settings):
        second = await owner.submit(Shell(command="true"), concurrency_key="narrow")
        await owner.end_of(second, RunSucceeded)


async def test_one_that_waits_can_be_cancelled(owner: FakeOwner, settings: Settings) -> None:
    async with running_executor(settings):
        holder = await owner.submit(Shell(command="sleep 300"), concurrency_key="narrow")
        await owner.start_of(holder)
        waiting = await owner.submit(Shell(command="true"), concurrency_key="narrow")
        await owner.until_held(2)
        await owner.stop(waiting.run_id)
        await owner.end_of(waiting, RunCancelled)
        await owner.stop(holder.run_id)
        await owner.end_of(holder, RunCancelled)


async def test_a_rate_holds_across_executors(owner: FakeOwner, settings: Settings) -> None:
    room = Room()
    async with (
        running_executor(settings, [room.worker], processes=False),
        running_executor(settings, [room.worker], processes=False),
    ):
        items = [owner.item(Handler(handler="enter"), rate_key="slow", rate_per_second=10) for _ in range(10)]
        await owner.give(*items)
        starts = sorted([(await owner.end_of(item, RunSucceeded)).started for item in items])
    assert starts[-1] - starts[0] > 850_000, "nine gaps of a tenth of a second"
