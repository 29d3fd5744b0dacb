"""Many attempts in one message: each is still an attempt of its own, whatever happens to the others."""

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from executor_rig.process import executor_process
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.runtime.settings import Settings
from waterclock.executor import Context, Worker
from waterclock.proto import names
from waterclock.proto.events import RunCancelled, RunReturned, RunStarted, RunSucceeded
from waterclock.proto.spec import Handler
from waterclock.proto.work import ClaimReply, ClaimRequest, WorkItem


def parcel_of(owner: FakeOwner, count: int, handler: str = "note", **fields: Any) -> list[WorkItem]:
    """Runs of one partition, queued at the same instant."""
    run = fields.pop("run", {})
    items = [
        owner.item(Handler(handler=handler), run={"run_id": f"parcel~{n}@now-1", **run}, **fields)
        for n in range(count)
    ]
    return [msgspec.structs.replace(item, queued=items[0].queued) for item in items]


def gated(slots: int) -> tuple[Worker, asyncio.Event, list[str]]:
    """A worker whose first attempt waits for a gate, the gate, and who has begun."""
    worker, gate, begun = Worker(slots=slots), asyncio.Event(), list[str]()

    @worker.handler("note")
    async def note(context: Context, payload: Any) -> None:
        begun.append(context.run_id)
        if begun[0] == context.run_id:
            await gate.wait()

    return worker, gate, begun


async def recall(owner: FakeOwner, item: WorkItem) -> None:
    control = Bucket(owner.connection, owner.publisher, names.CONTROL)
    await control.put(names.cancel_key(item.run_id), str(item.queued).encode(), ttl=60)


async def frames(owner: FakeOwner) -> int:
    info = await owner.connection.api(f"STREAM.INFO.{names.RUNS}")
    return int(info["state"]["messages"])


@pytest.fixture
def free() -> tuple[Worker, list[str]]:
    worker, gate, begun = gated(16)
    gate.set()
    return worker, begun


async def test_all_of_it_runs_and_is_reported_in_few_frames(
    owner: FakeOwner, settings: Settings, free: tuple[Worker, list[str]]
) -> None:
    worker, begun = free
    items = parcel_of(owner, 64)
    async with running_executor(settings, [worker], processes=False):
        before = await frames(owner)
        await owner.give_parcel(*items)
        for item in items:
            await owner.end_of(item, RunSucceeded)
        await owner.nothing_left()
        assert await frames(owner) - before < len(items) / 2
    assert begun == [item.run_id for item in items], "in the order in which they were packed"
    assert owner.claims == []


async def test_what_came_with_a_long_attempt_runs_in_other_slots(
    owner: FakeOwner, settings: Settings
) -> None:
    worker, gate, _ = gated(2)
    items = parcel_of(owner, 6)
    async with running_executor(settings, [worker], processes=False):
        await owner.give_parcel(*items)
        for item in items[1:]:
            await owner.end_of(item, RunSucceeded)
        assert await owner.work_left() == 1, "it is acked when all of it has ended"
        gate.set()
        await owner.end_of(items[0], RunSucceeded)
        await owner.nothing_left()


async def test_what_gets_no_slot_goes_back(owner: FakeOwner, settings: Settings) -> None:
    worker, gate, begun = gated(1)
    items = parcel_of(owner, 4)
    async with running_executor(settings, [worker], processes=False):
        await owner.give_parcel(*items)
        for item in items[1:]:
            returned = await owner.end_of(item, RunReturned)
            assert returned.reason == "its executor had no slot for it"
        gate.set()
        await owner.end_of(items[0], RunSucceeded)
        await owner.nothing_left()
    assert begun == [items[0].run_id]


async def test_a_drained_executor_gives_back_what_it_has_not_begun(
    owner: FakeOwner, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.executor.intake.dispatcher._UNSTARTED_SECONDS", 60.0)
    worker, gate, begun = gated(1)
    items = parcel_of(owner, 4)
    async with running_executor(settings, [worker], processes=False) as executor:
        await owner.give_parcel(*items)
        await owner.start_of(items[0])
        leaving = asyncio.create_task(executor.close())
        for item in items[1:]:
            assert (await owner.end_of(item, RunReturned)).reason == "its executor was stopped"
        gate.set()
        await owner.end_of(items[0], RunSucceeded)
        await leaving
    await owner.nothing_left()
    assert begun == [items[0].run_id]


async def test_one_that_is_stopped_ends_and_the_others_go_on(owner: FakeOwner, settings: Settings) -> None:
    worker, _, _ = gated(4)
    items = parcel_of(owner, 4)
    async with running_executor(settings, [worker], processes=False):
        await owner.give_parcel(*items)
        await owner.start_of(items[0])
        await owner.stop(items[0].run_id)
        await owner.end_of(items[0], RunCancelled)
        for item in items[1:]:
            await owner.end_of(item, RunSucceeded)
        await owner.nothing_left()


@pytest.mark.parametrize("heard", [True, False], ids=["while it listened", "before it came"])
async def test_one_that_was_cancelled_before_it_began_is_left_out(
    heard: bool, owner: FakeOwner, settings: Settings, free: tuple[Worker, list[str]]
) -> None:
    """And a later attempt of the same run, asked for again, is not."""
    worker, begun = free
    items = parcel_of(owner, 3)
    again = msgspec.structs.replace(items[1], queued=items[1].queued + 1)
    if not heard:
        await recall(owner, items[1])
    async with running_executor(settings, [worker], processes=False):
        if heard:
            await recall(owner, items[1])
        await owner.give_parcel(*items)
        await owner.end_of(items[2], RunSucceeded)
        await owner.nothing_left()
        assert owner.of(items[1]) == []
        await owner.give_parcel(again)
        await owner.end_of(items[1], RunSucceeded)
    assert begun == [items[0].run_id, items[2].run_id, items[1].run_id]


async def test_a_parcel_that_waited_long_is_asked_about(
    owner: FakeOwner, settings: Settings, free: tuple[Worker, list[str]]
) -> None:
    """A recall of it may have been forgotten."""
    worker, begun = free
    old = [msgspec.structs.replace(item, queued=item.queued - 3_600_000_000) for item in parcel_of(owner, 3)]
    owner.verdict = lambda asked: ClaimReply(
        verdict="drop" if asked.run_id == old[1].run_id else "run", crash_count=0
    )
    async with running_executor(settings, [worker], processes=False):
        await owner.give_parcel(*old)
        await owner.end_of(old[2], RunSucceeded)
        await owner.nothing_left()
    assert begun == [old[0].run_id, old[2].run_id]
    assert [len(claim.more) for claim in owner.claims] == [2], "all in one request"


async def test_what_another_executor_has_is_asked_about_again(
    owner: FakeOwner, settings: Settings, free: tuple[Worker, list[str]]
) -> None:
    worker, begun = free
    items = parcel_of(owner, 3, run={"recovered": True})
    asked: Counter[str] = Counter()

    def verdict(request: ClaimRequest) -> ClaimReply:
        asked[request.run_id] += 1
        first = asked[request.run_id] == 1
        return ClaimReply(verdict="wait" if first and request.run_id == items[1].run_id else "run")

    owner.verdict = verdict
    async with running_executor(settings, [worker], processes=False):
        await owner.give_parcel(*items)
        await owner.end_of(items[1], RunSucceeded)
        await owner.nothing_left()
    assert Counter(begun) == Counter(item.run_id for item in items), "and what ran did so once"


async def test_an_executor_of_a_higher_tier_takes_parcels_of_a_lower(
    owner: FakeOwner, settings: Settings
) -> None:
    worker = Worker(tier="heavy", slots=8)
    ran = []

    @worker.handler("note")
    def note(context: Context, payload: Any) -> None:
        ran.append(context.run_id)

    items = parcel_of(owner, 5)
    await owner.give_parcel(*items)
    async with running_executor(settings, [worker], processes=False):
        for item in items:
            await owner.end_of(item, RunSucceeded)
        await owner.nothing_left()
    assert sorted(ran) == [item.run_id for item in items]


# -- executors that die or stand still -------------------------------------------------------------------


def noted(notes: Path) -> Counter[str]:
    return Counter(notes.read_text().split()) if notes.exists() else Counter()


@pytest.fixture
def processes(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, worker=("executor_rig.parcel_handlers:worker",))


async def test_of_a_half_done_parcel_only_the_rest_is_run_again_when_its_executor_was_killed(
    owner: FakeOwner, processes: Settings, tmp_path: Path
) -> None:
    """Also what is delivered exactly once: what had ended is not run again, and what had not is run under a new lease
    when the old one is gone."""
    notes, go = tmp_path / "notes", tmp_path / "go"
    done = parcel_of(owner, 6, payload={"notes": str(notes)})
    held = {"notes": str(notes), "until": str(go)}
    items = [
        msgspec.structs.replace(
            item,
            spec=msgspec.structs.replace(
                item.spec,
                payload=held if number >= 3 else item.spec.payload,
                delivery="exactly_once" if number % 2 else "at_least_once",
            ),
        )
        for number, item in enumerate(done)
    ]

    def verdict(request: ClaimRequest) -> ClaimReply:
        ended = any(
            isinstance(event, RunSucceeded) and event.run_id == request.run_id for event in owner.events
        )
        return ClaimReply(verdict="drop" if ended else "run", crash_count=0 if ended else 1)

    owner.verdict = verdict
    async with executor_process(processes) as doomed:
        await owner.give_parcel(*items)
        for item in items[:3]:
            await owner.end_of(item, RunSucceeded)
        first = [await owner.start_of(item) for item in items[3:]]
        doomed.send(signal.SIGKILL)
        await doomed.ended()
    go.touch()
    async with executor_process(processes):
        for item in items[3:]:
            await owner.end_of(item, RunSucceeded)
        await owner.nothing_left()
    assert [(claim.delivered, claim.in_parcel, len(claim.more)) for claim in owner.claims] == [(2, True, 5)]
    expected = {item.run_id: 1 if number < 3 else 2 for number, item in enumerate(items)}
    assert noted(notes) == Counter(expected)
    tokens = [start.fencing_token for start in first if start.fencing_token is not None]
    assert len(tokens) == 2
    for start in first:
        end = await owner.end_of(items[int(start.run_id[7])], RunSucceeded)
        assert (end.fencing_token or 0) > (start.fencing_token or -1)


async def test_an_executor_that_stood_still_goes_on_with_its_parcel(
    owner: FakeOwner, processes: Settings, tmp_path: Path
) -> None:
    """It gets its own delivery again, and asks nobody."""
    notes, go = tmp_path / "notes", tmp_path / "go"
    items = parcel_of(owner, 4, payload={"notes": str(notes), "until": str(go)})
    async with executor_process(processes) as paused:
        await owner.give_parcel(*items)
        for item in items:
            await owner.start_of(item)
        paused.send(signal.SIGSTOP)
        stopped = time.monotonic()
        await eventually(
            lambda: time.monotonic() - stopped > processes.ack_wait_seconds + 0.5, "past the deadline"
        )
        paused.send(signal.SIGCONT)
        consumer = names.work_consumer(names.route_of("default", "note"), "light", "0")

        async def delivered_again() -> bool:
            info = await owner.connection.api(f"CONSUMER.INFO.{names.WORK}.{consumer}")
            return int(info["delivered"]["consumer_seq"]) >= 2

        await eventually(delivered_again, "a second delivery")
        go.touch()
        for item in items:
            await owner.end_of(item, RunSucceeded)
        await owner.nothing_left()
    assert noted(notes) == Counter(item.run_id for item in items)
    assert owner.claims == []
    assert len([event for event in owner.events if isinstance(event, RunStarted)]) == len(items)
