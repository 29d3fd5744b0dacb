"""Handlers in processes of their own."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from executor_rig.builders import attempt
from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import RunningExecutor, running_executor
from executor_rig.process_handlers import who, worker
from support.waiting import eventually, is_alive
from waterclock.core.jetstream.messages import Delivery
from waterclock.core.runtime.settings import Settings
from waterclock.executor.attempt_record import Attempt, Succeeded
from waterclock.executor.in_flight import Receipt, RunningAttempt, StopCause, work_key
from waterclock.executor.perform.handler_process import HandlerProcesses
from waterclock.proto.events import RunCancelled, RunFailed, RunSucceeded
from waterclock.proto.spec import Handler


@pytest.fixture
async def executor(owner: FakeOwner, settings: Settings) -> AsyncIterator[RunningExecutor]:
    async with running_executor(settings, [worker], processes=False) as executor:
        yield executor


async def test_a_process_runs_it_and_is_used_again(owner: FakeOwner, executor: RunningExecutor) -> None:
    pids = []
    for payload in ("one", "two"):
        item = await owner.submit(Handler(handler="who"), payload=payload)
        end = await owner.end_of(item, RunSucceeded)
        assert end.output["payload"] == payload
        assert end.log_url is not None
        pids.append(end.output["pid"])
    assert pids[0] == pids[1] != os.getpid()


async def test_what_it_raises_arrives(owner: FakeOwner, executor: RunningExecutor) -> None:
    failing = await owner.submit(Handler(handler="fail"), payload="a key")
    end = await owner.end_of(failing, RunFailed)
    assert end.reason == "KeyError: 'a key'"
    assert "in fail" in end.error_message
    retried = await owner.submit(Handler(handler="again"), max_retries=1)
    end = await owner.end_of(retried, RunFailed)
    assert end.retry_at == end.at + 60_000_000


async def test_its_death_is_a_failure_and_the_next_gets_another(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(Handler(handler="die"))
    assert (await owner.end_of(item, RunFailed)).reason == "its process ended with -9"
    after = await owner.submit(Handler(handler="who"))
    await owner.end_of(after, RunSucceeded)


async def test_it_can_be_stopped_whatever_it_does(
    owner: FakeOwner, executor: RunningExecutor, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    item = await owner.submit(Handler(handler="hang"), payload=str(file))
    await eventually(lambda: file.exists() and file.read_text(), "its pid")
    await owner.stop(item.run_id)
    await owner.end_of(item, RunCancelled)
    assert not is_alive(int(file.read_text()))


async def test_a_stop_that_comes_after_the_call_spares_the_process_for_others() -> None:
    processes = HandlerProcesses()
    try:
        pids = []
        for _ in range(2):
            running, one = running_attempt(Handler(handler="who"))
            result = await processes.call(who, one, lambda _: None, running, str)
            assert isinstance(result, Succeeded)
            pids.append(result.output["pid"])
            running.stop(StopCause(kind="cancelled", reason="late"))
        assert pids[0] == pids[1]
    finally:
        processes.close()


def running_attempt(task: Handler) -> tuple[RunningAttempt, Attempt]:
    one = attempt(task)
    delivery = Delivery(subject="", data=b"", reply="", sequence=1, delivered=1, pending=0, timestamp_ns=0)
    return RunningAttempt(one.item, work_key(one.item), Receipt(delivery), 1), one
