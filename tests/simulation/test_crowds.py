"""Crowds that are larger than the memory for them: all of it fires, once; little of it is in memory; nothing else is
held up by it; and what is changed while only the index has it is changed."""

import random

import pytest

from simulation.executors import Executors
from simulation.test_simulation import check_missed, judge, settle
from simulation.world import EPOCH, World, queued_runs
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.proto.events import JobCancelled, JobCreated, JobPaused
from waterclock.proto.spec import JobSpec, Schedule, Shell
from waterclock.scheduler.timing.near_future import Capacity

MINUTELY = JobSpec(
    name="minutely",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="CRON", cron_expression=("*/5 * * * *",)),
)
CROWD = 2_000
MOST = 50
GROUP = 500
"""So many are filed together at most."""


def once_at(instant: int) -> JobSpec:
    schedule = Schedule(schedule_type="FUTURE", schedule_time=datetime_of(instant))
    return JobSpec(name="once", task=Shell(command="true"), schedule=schedule)


def world_with(dues: list[int]) -> World:
    world = World(random.Random(0), crash_chance=0.0, capacity=Capacity(MOST, MOST), crowded=0)
    for number, due in enumerate(dues):
        world.define(JobCreated(job_id=f"job{number}", spec=once_at(due), at=EPOCH, created_at=EPOCH))
    for _ in range(10):
        world.step(everything=True)
    return world


def fire_all(world: World, *, die_every: int = 0) -> int:
    """Let all that is due fire. Answers how many were in memory at most, or remembered as decided ahead."""
    most = steps = 0
    while len(queued_runs(world)) < CROWD and steps < 2_000:
        steps += 1
        world.now += SECOND // 10
        world.step(everything=True)
        if die_every and steps % die_every == 0:
            world.life = world.owned = None
            continue
        assert world.owner is not None
        most = max(most, len(world.owner.schedules.armed), len(world.owner.state.ahead))
    return most


@pytest.mark.parametrize("die_every", [0, 7])
@pytest.mark.parametrize("seconds", [0, 40])
def test_a_crowd_fires_though_there_is_no_room_for_it(seconds: int, die_every: int) -> None:
    """At one instant, or spread over some time in no order."""
    rng = random.Random(3)
    due = EPOCH + 70 * SECOND
    world = world_with([due + int(rng.random() * seconds * SECOND) for _ in range(CROWD)])
    assert world.owner is not None
    assert len(world.owner.schedules.armed) <= MOST + GROUP
    world.now = due
    assert fire_all(world, die_every=die_every) <= 2 * (MOST + GROUP)
    settle(world, Executors(world))
    assert judge(world).clean
    assert not check_missed(world)
    assert len({run.run_id for run in queued_runs(world)}) == CROWD


def test_what_is_due_first_is_in_memory_whenever_it_was_stored() -> None:
    """The last of the crowd was defined first."""
    due = EPOCH + 70 * SECOND
    world = world_with([due + (CROWD - number) * SECOND // 50 for number in range(CROWD)])
    times = sorted(due + (CROWD - number) * SECOND // 50 for number in range(CROWD))
    world.now = due
    for _ in range(80):
        world.now += SECOND // 2
        for _ in range(4):
            world.step(everything=True)
        assert len(queued_runs(world)) >= sum(time < world.now - SECOND for time in times)
    assert len(queued_runs(world)) > CROWD * 0.9


def test_what_recurs_is_not_behind_an_unread_crowd() -> None:
    due = EPOCH + 70 * SECOND
    world = world_with([due] * CROWD)
    world.room_limit = 0
    world.define(JobCreated(job_id="often", spec=MINUTELY, at=world.now, created_at=world.now))
    world.step(everything=True)
    world.now = due
    for _ in range(10):
        world.step(everything=True)
    assert world.owner is not None
    assert world.owner.schedules.near.unread > CROWD / 2
    world.room_limit = 1
    world.now = due + 300 * SECOND
    for _ in range(3):
        world.step(everything=True)
    first = queued_runs(world)[0]
    assert first.run_id.startswith("often@")


@pytest.mark.parametrize("overdue", [False, True])
def test_what_is_cancelled_or_paused_while_only_the_index_has_it(overdue: bool) -> None:
    """What was due before it was cancelled is still decided, what was to come is not."""
    due = EPOCH + 70 * SECOND
    world = world_with([due] * CROWD)
    assert world.owner is not None
    gone = [f"job{number}" for number in range(CROWD) if not world.owner.holds(f"job{number}")][::7]
    world.room_limit = 0
    world.now = due + 5 * SECOND if overdue else due - 5 * SECOND
    for number, job_id in enumerate(gone):
        spec, now = once_at(due), world.now
        world.define(
            JobCancelled(job_id=job_id, spec=spec, at=now, created_at=EPOCH)
            if number % 2
            else JobPaused(job_id=job_id, spec=spec, at=now, created_at=EPOCH)
        )
    for _ in range(3):
        world.step(everything=True)
    world.room_limit = None
    world.now = due + 10 * SECOND
    settle(world, Executors(world))
    assert judge(world).clean
    ran = {run.run_id.partition("@")[0] for run in queued_runs(world)}
    assert len(ran) == (CROWD if overdue else CROWD - len(gone))
    assert overdue or not ran & set(gone)
