"""Which work goes where and first: slots, tiers, priorities, queues, routes."""

import asyncio
import time
from typing import Any

import msgspec

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from waterclock.core.domain.instants import HOUR
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Worker
from waterclock.proto import names
from waterclock.proto.events import RunSucceeded
from waterclock.proto.spec import Argv, Handler, Shell
from waterclock.proto.work import WorkItem


def one_slot(settings: Settings, **changes: Any) -> Settings:
    return msgspec.structs.replace(settings, slots=1, **changes)


async def order_of(owner: FakeOwner, items: list[WorkItem]) -> list[str]:
    """The run ids in the order in which they were started."""
    ends = [await owner.end_of(item, RunSucceeded) for item in items]
    return [end.run_id for end in sorted(ends, key=lambda end: end.started)]


def in_order(began: list[int], slots: int) -> bool:
    """Nothing began while something higher was left. Those that get their slots together may begin in any order."""
    return all(first >= max(began[place + slots :], default=first) for place, first in enumerate(began))


async def test_the_higher_priority_goes_first(owner: FakeOwner, settings: Settings) -> None:
    priorities = [0, 1, 10, 20, 30, 48, 49, 50, 60, 100]
    items = [owner.item(Argv(command=("true",)), priority=priority) for priority in priorities]
    await owner.give(*items)
    async with running_executor(one_slot(settings)):
        assert await order_of(owner, items) == [item.run_id for item in reversed(items)]


async def test_several_slots_are_filled_in_the_order_of_priorities(
    owner: FakeOwner, settings: Settings
) -> None:
    """Slots that come free together, and an executor that finds work waiting: nothing lower begins before a higher."""
    worker = Worker(slots=4)
    began: list[int] = []

    @worker.handler("note")
    async def note(context: Context, payload: int) -> None:
        began.append(payload)
        if payload < 0:
            await asyncio.Event().wait()

    first = [owner.item(Handler(handler="note"), payload=n, priority=n) for n in (20, 1, 49, 30) * 3]
    await owner.give(*first)
    async with running_executor(settings, [worker], processes=False):
        for item in first:
            await owner.end_of(item, RunSucceeded)
        assert in_order(began, 4), began
        began.clear()
        blocking = [owner.item(Handler(handler="note"), payload=-1, priority=100) for _ in range(4)]
        await owner.give(*blocking)
        await owner.until(lambda: len(began) == 4, "all slots to be taken")
        second = [owner.item(Handler(handler="note"), payload=n, priority=n) for n in (10, 77, 0, 48, 49) * 3]
        await owner.give(*second)
        for item in blocking:  # not by opening the gate: so it has heard of the work before
            await owner.stop(item.run_id)
        for item in second:
            await owner.end_of(item, RunSucceeded)
        assert in_order(began[4:], 4), began


async def test_work_that_waits_as_in_the_first_releases_is_run(owner: FakeOwner, settings: Settings) -> None:
    """In lines of ranges of priorities: from before an upgrade, or beside an executor that knows no others."""
    old = [
        owner.item(Argv(command=("true",)), priority=priority, run={"exact": False})
        for priority in (5, 95, 49, 60)
    ]
    new = [owner.item(Argv(command=("true",)), priority=priority) for priority in (0, 55)]
    await owner.give(*old, *new)
    async with running_executor(one_slot(settings)):
        order = await order_of(owner, [*old, *new])
        assert order[0] == old[1].run_id
        assert order[-1] == new[0].run_id
        later = await owner.submit(Argv(command=("true",)), priority=15, run={"exact": False})
        await owner.end_of(later, RunSucceeded)
        await owner.nothing_left()


async def test_a_line_that_is_not_used_is_removed_and_comes_back_with_work_for_it(
    owner: FakeOwner, settings: Settings
) -> None:
    async with running_executor(settings):
        await owner.end_of(await owner.submit(Argv(command=("true",)), priority=33), RunSucceeded)
        await owner.nothing_left()
        consumer = names.work_consumer("default", "light", "p33")
        now = time.time()
        assert await owner.lines.remove_idle(set(), now) == [], "it was just used"
        assert await owner.lines.remove_idle({consumer}, now + 3600) == [], "something is queued there"
        assert await owner.lines.remove_idle(set(), now + 3600) == [consumer]
        await owner.end_of(await owner.submit(Argv(command=("true",)), priority=33), RunSucceeded)


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
