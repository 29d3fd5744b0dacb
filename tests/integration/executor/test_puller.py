"""Which work goes where and first: slots, tiers, priorities, queues, routes."""

import asyncio
from typing import Any

import msgspec

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from waterclock.core.domain.instants import HOUR
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Worker
from waterclock.proto.events import RunSucceeded
from waterclock.proto.spec import Argv, Handler, Shell
from waterclock.proto.work import WorkItem


def one_slot(settings: Settings, **changes: Any) -> Settings:
    return msgspec.structs.replace(settings, slots=1, **changes)


async def order_of(owner: FakeOwner, items: list[WorkItem]) -> list[str]:
    """The run ids in the order in which they were started."""
    ends = [await owner.end_of(item, RunSucceeded) for item in items]
    return [end.run_id for end in sorted(ends, key=lambda end: end.started)]


async def test_the_higher_priority_goes_first(owner: FakeOwner, settings: Settings) -> None:
    priorities = [0, 5, 20, 60, 100]
    items = [owner.item(Argv(command=("true",)), priority=priority) for priority in priorities]
    await owner.give(*items)
    async with running_executor(one_slot(settings)):
        assert await order_of(owner, items) == [item.run_id for item in reversed(items)]


async def test_overdue_work_overtakes_but_what_is_behind_it_does_not(
    owner: FakeOwner, settings: Settings
) -> None:
    high = [owner.item(Argv(command=("sleep", "0.4")), priority=60) for _ in range(6)]
    old = owner.item(Argv(command=("true",)), priority=20, run={"due": high[0].due - HOUR})
    young = owner.item(Argv(command=("true",)), priority=20)
    await owner.give(*high, old, young)
    async with running_executor(one_slot(settings)):
        order = await order_of(owner, [*high, old, young])
    assert order[0] == high[0].run_id
    assert order[-2:] == [high[-1].run_id, young.run_id]


async def test_an_executor_takes_lower_tiers_but_its_own_first(owner: FakeOwner, settings: Settings) -> None:
    light = [owner.item(Argv(command=("true",)), tier="light", priority=90) for _ in range(3)]
    medium = [owner.item(Argv(command=("true",)), tier="medium") for _ in range(3)]
    heavy = owner.item(Argv(command=("true",)), tier="heavy")
    await owner.give(*light, *medium, heavy)
    async with running_executor(one_slot(settings, tier="medium")):
        order = await order_of(owner, [*light, *medium])
    assert order == [item.run_id for item in (*medium, *light)]
    assert owner.of(heavy) == [], "never the reverse"
    async with running_executor(one_slot(settings, tier="heavy")):
        await owner.end_of(heavy, RunSucceeded)


async def test_a_queue_is_served_by_its_own_executors(owner: FakeOwner, settings: Settings) -> None:
    elsewhere = await owner.submit(Argv(command=("true",)), queue="gpu")
    async with running_executor(settings):
        here = await owner.submit(Argv(command=("true",)))
        await owner.end_of(here, RunSucceeded)
        assert owner.of(elsewhere) == []
    async with running_executor(msgspec.structs.replace(settings, queue="gpu")):
        await owner.end_of(elsewhere, RunSucceeded)


async def test_a_worker_is_handed_only_what_it_serves(owner: FakeOwner, settings: Settings) -> None:
    mine, theirs = Worker(), Worker()

    @mine.handler("mine")
    async def handle_mine(context: Context, payload: Any) -> str:
        return "mine"

    @theirs.handler("theirs")
    async def handle_theirs(context: Context, payload: Any) -> str:
        return "theirs"

    waiting = await owner.submit(Handler(handler="theirs"))
    async with running_executor(settings, [mine], processes=False):
        served = await owner.submit(Handler(handler="mine"))
        assert (await owner.end_of(served, RunSucceeded)).output == "mine"
        assert owner.of(waiting) == []
    async with running_executor(settings, [theirs], processes=False):
        assert (await owner.end_of(waiting, RunSucceeded)).output == "theirs"


async def test_no_more_is_taken_than_there_are_slots(owner: FakeOwner, settings: Settings) -> None:
    """A busy executor leaves the rest in the queue, where an idle one finds it."""
    worker = Worker(slots=3)
    gate = asyncio.Event()
    inside = 0
    most = 0

    @worker.handler("wait")
    async def wait(context: Context, payload: Any) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await gate.wait()
        inside -= 1

    async with running_executor(settings, [worker], processes=False):
        items = [owner.item(Handler(handler="wait")) for _ in range(10)]
        await owner.give(*items)
        await owner.until(lambda: len(owner.events) >= 3, "three starts")
        assert await owner.held() == 3
        second = Worker(slots=10)
        second.handler("wait")(wait)
        async with running_executor(settings, [second], processes=False):
            await owner.until(lambda: len(owner.events) >= 10, "the others started elsewhere")
            gate.set()
            for item in items:
                await owner.end_of(item, RunSucceeded)
    assert most == 10


async def test_what_costs_more_slots_waits_for_them(owner: FakeOwner, settings: Settings) -> None:
    worker = Worker(slots=3)
    used = 0
    most = 0

    @worker.handler("cost")
    async def cost(context: Context, payload: int) -> None:
        nonlocal used, most
        used += payload
        most = max(most, used)
        await asyncio.sleep(0.02)
        used -= payload

    async with running_executor(settings, [worker], processes=False):
        costs = [1, 2, 3, 1, 2, 1, 99, 1]
        items = [owner.item(Handler(handler="cost"), payload=min(n, 3), slots=n) for n in costs]
        await owner.give(*items)
        for item in items:
            await owner.end_of(item, RunSucceeded)
    assert most == 3


async def test_work_that_comes_to_an_idle_executor_starts_at_once(
    owner: FakeOwner, settings: Settings
) -> None:
    """It listens on every route rather than pulls, and publications wake it."""
    worker = Worker()

    @worker.handler("quick")
    async def quick(context: Context, payload: Any) -> None: ...

    async with running_executor(settings, [worker]):
        first = await owner.submit(Handler(handler="quick"))
        await owner.end_of(first, RunSucceeded)
        lags = []
        for n in range(20):
            item = await owner.submit(Handler(handler="quick"), priority=(n * 7) % 100)
            end = await owner.end_of(item, RunSucceeded)
            lags.append((end.started - item.queued) / 1000)
    assert sorted(lags)[10] < 50, f"milliseconds: {lags}"


async def test_a_heavy_backlog_does_not_delay_light_work(owner: FakeOwner, settings: Settings) -> None:
    heavy = [owner.item(Shell(command="sleep 0.2"), tier="heavy") for _ in range(20)]
    await owner.give(*heavy)
    async with (
        running_executor(one_slot(settings, tier="heavy")),
        running_executor(one_slot(settings, tier="light")),
    ):
        await owner.start_of(heavy[0])
        light = await owner.submit(Argv(command=("true",)), tier="light")
        await owner.end_of(light, RunSucceeded)
        assert len([item for item in heavy if owner.ends_of(item)]) < 10
