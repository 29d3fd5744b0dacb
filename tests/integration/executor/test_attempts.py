"""Attempts end to end: work in, outcome out, nothing left in the queue."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import RunningExecutor, running_executor
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Retry, Snooze, Worker
from waterclock.executor.handler_exceptions import Cancel
from waterclock.proto.events import RunCancelled, RunFailed, RunSnoozed, RunSucceeded, RunTimedOut
from waterclock.proto.spec import Argv, Handler, Shell

worker = Worker(slots=8)


@worker.handler("double")
async def double(context: Context, payload: Any) -> Any:
    return payload * 2


@worker.handler("blocking")
def blocking(context: Context, payload: Any) -> Any:
    return {"attempt": context.attempt, "key": context.idempotency_key, "payload": context.payload}


@worker.handler("broken")
async def broken(context: Context, payload: Any) -> None:
    raise ValueError("no such user")


@worker.handler("directed")
async def directed(context: Context, payload: str) -> None:
    match payload:
        case "retry":
            raise Retry("later", after=60)
        case "snooze":
            raise Snooze(30, "not yet")
        case "cancel":
            raise Cancel("pointless")


@worker.handler("sleepy")
async def sleepy(context: Context, payload: float) -> None:
    await asyncio.sleep(payload)


@pytest.fixture
async def executor(owner: FakeOwner, settings: Settings) -> AsyncIterator[RunningExecutor]:
    async with running_executor(settings, [worker]) as executor:
        yield executor


async def test_a_shell_command_runs_and_its_work_is_gone(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Shell(command="echo hello; exit 0"))
    end = await owner.end_of(item, RunSucceeded)
    assert end.exit_code == 0
    assert end.executor_id == executor.executor_id
    assert end.log_url == f"/v1/runs/{item.run_id}/log"
    await owner.nothing_left()


async def test_an_exit_code_is_the_reason_and_the_last_words_the_message(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(Argv(command=("sh", "-c", "echo oh no >&2; exit 7")), max_retries=1)
    end = await owner.end_of(item, RunFailed)
    assert end.reason == "exit code 7"
    assert end.error_message == "oh no"
    assert end.retry_at is not None


async def test_a_handler_gets_the_payload_and_gives_the_output(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(Handler(handler="double"), payload=21)
    assert (await owner.end_of(item, RunSucceeded)).output == 42


async def test_a_blocking_handler_runs_beside_the_loop(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Handler(handler="blocking"), payload=["a"])
    expected = {"attempt": 1, "key": item.run_id, "payload": ["a"]}
    assert (await owner.end_of(item, RunSucceeded)).output == expected


async def test_an_exception_is_a_failure_with_its_traceback(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(Handler(handler="broken"))
    end = await owner.end_of(item, RunFailed)
    assert end.reason == "ValueError: no such user"
    assert "in broken" in end.error_message
    assert end.retry_at is None


async def test_a_handler_may_say_how_it_ends(owner: FakeOwner, executor: RunningExecutor) -> None:
    retry = await owner.submit(Handler(handler="directed"), payload="retry", max_retries=3)
    snooze = await owner.submit(Handler(handler="directed"), payload="snooze")
    cancel = await owner.submit(Handler(handler="directed"), payload="cancel")
    failed = await owner.end_of(retry, RunFailed)
    assert failed.retry_at == failed.at + 60_000_000
    snoozed = await owner.end_of(snooze, RunSnoozed)
    assert snoozed.until == snoozed.at + 30_000_000
    assert (await owner.end_of(cancel, RunCancelled)).reason == "pointless"


async def test_a_timeout_ends_a_handler_and_a_process(owner: FakeOwner, executor: RunningExecutor) -> None:
    handler = await owner.submit(Handler(handler="sleepy"), payload=60.0, timeout_seconds=0.2)
    patient = await owner.submit(Handler(handler="sleepy"), payload=60.0, timeout_seconds=1.0)
    process = await owner.submit(Argv(command=("sleep", "60")), timeout_seconds=0.2)
    assert (await owner.end_of(handler, RunTimedOut)).reason == "timed out after 0.2 s"
    late = await owner.end_of(patient, RunTimedOut)
    assert late.reason == "timed out after 1 s"
    assert late.at - late.started >= 1_000_000
    end = await owner.end_of(process, RunTimedOut)
    assert end.exit_code == 128 + 15
