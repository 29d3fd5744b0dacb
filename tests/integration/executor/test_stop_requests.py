"""Stopping what runs: the whole tree, and cancelled only when it is gone."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from support.waiting import eventually, is_alive
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Worker
from waterclock.proto.events import RunCancelled, RunSucceeded
from waterclock.proto.spec import Argv, Handler, Shell

STUBBORN = """
trap '' TERM
(trap '' TERM; sleep 300) & echo $! >> {pids}
setsid sh -c "trap '' TERM; echo \\$\\$ >> {pids}; sleep 300 & echo \\$! >> {pids}; wait" &
(setsid sh -c 'echo $$ >> {pids}; exec env -i sleep 300' &)
echo $$ >> {pids}
touch {pids}.ready
while :; do sleep 300; done
"""


@pytest.mark.parametrize("at_once", [False, True], ids=["term-grace-kill", "kill"])
async def test_a_stubborn_tree_is_gone_when_the_run_is_cancelled(
    owner: FakeOwner, settings: Settings, tmp_path: Path, at_once: bool
) -> None:
    pids = tmp_path / "pids"
    async with running_executor(msgspec.structs.replace(settings, stop_grace_seconds=0.3)) as executor:
        item = await owner.submit(Shell(command=STUBBORN.format(pids=pids)))
        await owner.start_of(item)
        await eventually(lambda: len(_pids(pids)) == 5, "five processes")
        assert all(is_alive(pid) for pid in _pids(pids))
        await owner.stop(item.run_id, to=executor.executor_id, now=at_once)
        end = await owner.end_of(item, RunCancelled)
        assert [pid for pid in _pids(pids) if is_alive(pid)] == []
        assert end.reason == "cancelled by a test"
        assert end.exit_code == 128 + 9
        await owner.nothing_left()


async def test_a_program_may_clean_up_in_its_grace(owner: FakeOwner, settings: Settings) -> None:
    async with running_executor(settings) as executor:
        item = await owner.submit(Shell(command="trap 'echo bye; exit 3' TERM; echo up; sleep 60 & wait"))
        await eventually(lambda: owner.said(executor.executor_id, item, b"up\n"), "its first word")
        await owner.stop(item.run_id)
        end = await owner.end_of(item, RunCancelled)
        assert end.exit_code == 3


async def test_what_is_asked_for_again_after_it_was_cancelled_in_the_queue_runs(
    owner: FakeOwner, settings: Settings
) -> None:
    """Whoever did not have it has heard of the stop all the same."""
    async with running_executor(settings):
        cancelled = owner.item(Argv(command=("true",)))
        await owner.stop(cancelled.run_id, until=cancelled.queued)
        again = msgspec.structs.replace(cancelled, queued=cancelled.queued + 1, attempt=2, first_attempt=2)
        await owner.give(cancelled)
        await owner.nothing_left()
        assert owner.of(cancelled) == []
        await owner.give(again)
        assert (await owner.end_of(again, RunSucceeded)).attempt == 2


async def test_a_handler_is_cancelled_where_it_waits(owner: FakeOwner, settings: Settings) -> None:
    worker = Worker()
    waiting = asyncio.Event()
    cleaned_up: list[str] = []

    @worker.handler("wait")
    async def wait(context: Context, payload: Any) -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            cleaned_up.append(context.run_id)

    async with running_executor(settings, [worker], processes=False):
        item = await owner.submit(Handler(handler="wait"))
        await waiting.wait()
        await owner.stop(item.run_id)
        await owner.end_of(item, RunCancelled)
        assert cleaned_up == [item.run_id]


async def test_a_handler_in_a_thread_is_interrupted(owner: FakeOwner, settings: Settings) -> None:
    worker = Worker()

    @worker.handler("spin")
    def spin(context: Context, payload: Any) -> None:
        context.log("spinning")
        while True:
            pass

    @worker.handler("after")
    def after(context: Context, payload: Any) -> str:
        return "undisturbed"

    async with running_executor(settings, [worker], processes=False):
        item = await owner.submit(Handler(handler="spin"))
        await owner.start_of(item)
        await owner.stop(item.run_id)
        await owner.end_of(item, RunCancelled)
        next_one = await owner.submit(Handler(handler="after"))
        assert (await owner.end_of(next_one, RunSucceeded)).output == "undisturbed"


async def test_work_withdrawn_before_it_came_is_dropped(owner: FakeOwner, settings: Settings) -> None:
    async with running_executor(settings):
        item = owner.item(Argv(command=("true",)))
        await owner.stop(item.run_id)
        marker = await owner.submit(Argv(command=("true",)))
        await owner.end_of(marker, RunSucceeded)
        await owner.give(item)
        await owner.nothing_left()
        assert owner.of(item) == []


async def test_cancelling_twice_or_late_is_harmless(owner: FakeOwner, settings: Settings) -> None:
    async with running_executor(settings):
        item = await owner.submit(Argv(command=("sleep", "60")))
        await owner.start_of(item)
        await owner.stop(item.run_id)
        await owner.stop(item.run_id)
        await owner.end_of(item, RunCancelled)
        await owner.stop(item.run_id)
        marker = await owner.submit(Argv(command=("true",)))
        await owner.end_of(marker, RunSucceeded)
        assert len(owner.ends_of(item)) == 1


def _pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []
