"""Work that waited in the queue past its start deadline does not start."""

from functools import partial
from pathlib import Path

import msgspec

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from support.waiting import eventually
from waterclock.core.domain.instants import SECOND
from waterclock.core.runtime.settings import Settings
from waterclock.proto.events import Instant, RunsMissed, RunStarted, RunSucceeded
from waterclock.proto.spec import Shell
from waterclock.proto.work import ClaimReply, WorkItem


def _was_told(owner: FakeOwner, item: WorkItem) -> bool:
    return bool(owner.of(item))


async def test_it_is_missed_when_it_is_taken_and_the_slot_goes_to_the_next(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    long_ago: Instant = owner.item(Shell(command="")).due - 60 * SECOND
    stale = [
        owner.item(
            Shell(command=f"touch {tmp_path}/ran"),
            run={"due": long_ago},
            start_deadline_seconds=30,
            delivery=mode,
        )
        for mode in ("at_least_once", "exactly_once")
    ]
    fresh = owner.item(
        Shell(command="sleep 0.2"), start_deadline_seconds=30
    )  # so long that its start is reported
    retried = owner.item(
        Shell(command="true"), run={"due": long_ago, "attempt": 2}, start_deadline_seconds=30
    )
    await owner.give(*stale, fresh, retried)
    async with running_executor(msgspec.structs.replace(settings, slots=1)):
        await owner.end_of(fresh, RunSucceeded)
        await owner.end_of(retried, RunSucceeded)
        for item in stale:
            await owner.until(partial(_was_told, owner, item), "the miss")
            [event] = owner.of(item)
            assert isinstance(event, RunsMissed)
            assert event.reason.startswith("start deadline of 30 s passed in the queue: it was due 6")
        await owner.nothing_left()
        kinds = [type(event) for event in owner.of(fresh)]
        assert kinds == [RunStarted, RunSucceeded], "that it starts is in the log before it does, and once"
    assert not (tmp_path / "ran").exists()
    assert not [event for item in stale for event in owner.of(item) if isinstance(event, RunStarted)]


async def test_who_is_not_the_first_to_have_it_leaves_the_miss_to_its_owner(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    long_ago: Instant = owner.item(Shell(command="")).due - 60 * SECOND
    late, begun = (
        owner.item(
            Shell(command=f"touch {tmp_path}/{name}"),
            run={"due": long_ago, "recovered": True},
            start_deadline_seconds=30,
        )
        for name in ("late", "begun")
    )
    owner.verdict = lambda asked: ClaimReply(verdict="run", has_started=asked.run_id == begun.run_id)
    await owner.give(late, begun)
    async with running_executor(settings):
        await owner.end_of(begun, RunSucceeded)
        await eventually(
            lambda: [claim.run_id for claim in owner.claims].count(late.run_id) > 1,
            "it comes back",
            within=20,
        )
    assert owner.of(late) == []
    assert not (tmp_path / "late").exists()
