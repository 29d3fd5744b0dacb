"""What fails inside an executor: a background task ends it, an attempt is given to another."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tasks import TaskEnded
from waterclock.executor import Context, Worker
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.heartbeat import Heartbeat
from waterclock.executor.intake.puller import Puller
from waterclock.executor.intake.redelivery import Claims
from waterclock.executor.service import Executor
from waterclock.proto.events import RunSucceeded
from waterclock.proto.spec import Handler
from waterclock.proto.work import ClaimReply, WorkItem

worker = Worker(slots=4)


@worker.handler("quick")
async def quick(context: Context, payload: Any) -> None: ...


@pytest.mark.parametrize(
    ("part", "task"), [(KeepAlive, "run"), (Heartbeat, "run"), (Puller, "_watch_ages")], ids=str
)
async def test_a_background_task_that_returns_ends_the_executor(
    owner: FakeOwner, settings: Settings, monkeypatch: pytest.MonkeyPatch, part: type, task: str
) -> None:
    async def returns(_: Any) -> None: ...

    monkeypatch.setattr(part, task, returns)
    with pytest.raises(TaskEnded):
        async with asyncio.timeout(20):
            await Executor(settings, [worker], processes=False).run(StopSignal())


async def test_an_attempt_that_fails_to_be_resolved_is_delivered_again(
    owner: FakeOwner, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = []

    async def fails_once(
        _: Claims, items: Sequence[WorkItem], delivered: int, *, in_parcel: bool
    ) -> list[ClaimReply]:
        claimed.append(delivered)
        if len(claimed) == 1:
            raise RuntimeError("a defect")
        return [ClaimReply(verdict="run")]

    monkeypatch.setattr(Claims, "ask", fails_once)
    async with running_executor(settings, [worker], processes=False):
        item = await owner.submit(Handler(handler="quick"), run={"recovered": True})
        await owner.end_of(item, RunSucceeded)
    assert claimed == [1, 2]
