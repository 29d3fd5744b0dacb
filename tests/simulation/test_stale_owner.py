"""An owner that was taken for dead goes on: what it may still do harms nobody, and what might is refused."""

import random

import pytest

from simulation.executors import Executors
from simulation.life import StandsStill
from simulation.memory import MemoryTimingStore
from simulation.test_simulation import judge, settle
from simulation.world import EPOCH, World
from waterclock.core.domain.instants import SECOND
from waterclock.proto.events import JobCreated, JobPaused
from waterclock.proto.spec import JobSpec, Schedule, Shell

EVERY_FIVE_SECONDS = JobSpec(
    name="often",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="INTERVAL", interval_seconds=5),
)


@pytest.mark.parametrize("fenced", [True, False], ids=["fenced", "without the fence"])
def test_a_stale_owner_does_not_restore_what_was_removed_from_the_index(
    fenced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still before it wrote the entry of a schedule that has been paused since. Without the fence the paused
    schedule fires: the audit finds it, so it would find any other way there."""
    world = World(random.Random(0), crash_chance=0.0, index_is_fenced=fenced)
    world.define(JobCreated(job_id="job", spec=EVERY_FIVE_SECONDS, at=EPOCH, created_at=EPOCH))
    write = MemoryTimingStore.write

    async def stand_still(index: MemoryTimingStore, changes: dict[str, bytes | None]) -> None:
        await StandsStill()
        await write(index, changes)

    with monkeypatch.context() as patched:
        patched.setattr(MemoryTimingStore, "write", stand_still)
        patched.setattr(World, "_is_found_alive", lambda *_: False)
        world.step(everything=True)
    assert len(world.stale) == 1
    (first, *_), world.life, world.owned = world.stale[0], None, None
    first.is_certain = False
    world.step(everything=True)
    assert world.index, "the second owner has stored the schedule"
    world.now += SECOND
    world.define(JobPaused(job_id="job", spec=EVERY_FIVE_SECONDS, at=world.now, created_at=EPOCH))
    world.step(everything=True)
    assert not world.index, "and has removed it"
    now = JobSpec(name="now", task=Shell(command="true"))
    world.define(JobCreated(job_id="other", spec=now, at=world.now, created_at=world.now))
    world.step(everything=True)
    assert world.runs[-1].cursor is not None
    assert world.runs[-1].cursor.index == 2, "and has said so"
    world.wake_stale()
    assert world.refused == fenced
    assert bool(world.index) is not fenced
    world.life = world.owned = None
    world.step(everything=True)
    world.now += 300 * SECOND
    settle(world, Executors(world))
    faults = {finding.fault for finding in judge(world).findings}
    assert faults == (set() if fenced else {"invented"})
