"""nats-server killed under a running executor."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor, settings_for
from servers.server import Server
from support.waiting import eventually, is_alive
from waterclock.executor import Context, Worker
from waterclock.proto.events import OutcomeRejected, RunFailed, RunReturned, RunSucceeded
from waterclock.proto.spec import Handler, Shell


@pytest.fixture
async def owner(nats_server: Server) -> AsyncIterator[FakeOwner]:
    async with FakeOwner.open(nats_server.url) as owner:
        yield owner


def _at_least(runs: dict[str, int], count: int) -> bool:
    return len(runs) >= count


async def test_an_outcome_waits_for_the_server(owner: FakeOwner, nats_server: Server, tmp_path: Path) -> None:
    async with running_executor(settings_for(nats_server.url, tmp_path)):
        item = await owner.submit(
            Shell(command=f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo 42; touch {tmp_path}/gone")
        )
        await owner.start_of(item)
        await asyncio.to_thread(nats_server.kill)
        (tmp_path / "go").touch()
        await eventually((tmp_path / "gone").exists, "the end of the process")
        await asyncio.to_thread(nats_server.start)
        assert (await owner.end_of(item, RunSucceeded)).output == 42
        await owner.nothing_left()
    assert len(owner.ends_of(item)) == 1


async def test_an_attempt_that_lost_its_lease_to_an_outage_has_not_failed(
    owner: FakeOwner, nats_server: Server, tmp_path: Path
) -> None:
    async with running_executor(settings_for(nats_server.url, tmp_path)):
        command = f"echo $$ > {tmp_path}/pid; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
        item = await owner.submit(Shell(command=command), delivery="exactly_once")
        await eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "its pid")
        pid = int((tmp_path / "pid").read_text())
        await asyncio.to_thread(nats_server.kill)
        await eventually(lambda: not is_alive(pid), "the end of the process")
        (tmp_path / "go").touch()
        await asyncio.to_thread(nats_server.start)
        await owner.until(
            lambda: any(isinstance(event, RunReturned | OutcomeRejected) for event in owner.of(item)),
            "what became of it",
        )
    assert not any(isinstance(event, RunFailed) for event in owner.of(item))


async def test_nothing_is_lost_or_forgotten_while_the_server_comes_and_goes(
    owner: FakeOwner, nats_server: Server, tmp_path: Path
) -> None:
    worker = Worker(slots=16)
    runs: dict[str, int] = {}

    @worker.handler("count")
    async def count(context: Context, payload: Any) -> None:
        runs[context.run_id] = runs.get(context.run_id, 0) + 1
        await asyncio.sleep(0.01)

    async with running_executor(settings_for(nats_server.url, tmp_path), [worker], processes=False):
        items = [owner.item(Handler(handler="count")) for _ in range(600)]
        await owner.give(*items)
        for share in (100, 300):
            await eventually(partial(_at_least, runs, share), f"{share} runs")
            await asyncio.to_thread(nats_server.kill)
            await asyncio.to_thread(nats_server.start)
        for item in items:
            await owner.end_of(item, RunSucceeded)
        await owner.nothing_left()
    assert set(runs) == {item.run_id for item in items}
    doubled = [run_id for run_id, times in runs.items() if times > 1]
    assert doubled == [], "a delivery that came again was known"
