"""What keeps an overload going, and does not here: takeovers that begin anew, and work that is published all again."""

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from simulation.executors import Executors
from simulation.life import Crash
from simulation.memory import MemoryFencedLog, MemoryLog, MemoryWorkQueue
from simulation.test_simulation import judge, settle
from simulation.world import EPOCH, World, queued_runs
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.core.domain.timing_groups import decode_group
from waterclock.proto.events import Cursor, JobCreated, RunEvent, RunQueued
from waterclock.proto.spec import JobSpec, Schedule, Shell
from waterclock.proto.work import WorkItem
from waterclock.scheduler.ports import WorkInDoubt, WorkMessage

ONCE = JobSpec(name="once", task=Shell(command="true"))
HOURLY = JobSpec(
    name="hourly",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="CRON", cron_expression=("0 * * * *",)),
)


def world_of(definitions: int, spec: JobSpec) -> World:
    world = World(random.Random(0), crash_chance=0.0)
    for number in range(definitions):
        world.define(JobCreated(job_id=f"job{number}", spec=spec, at=EPOCH, created_at=EPOCH))
    return world


def test_a_takeover_that_is_cut_off_goes_on_from_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 7,000 unread definitions; each owner dies when it has written the second step of its takeover."""
    world = world_of(7_000, HOURLY)
    append = MemoryFencedLog.append
    left = 0

    async def append_and_die(log: MemoryFencedLog, events: Sequence[RunEvent], cursor: Cursor) -> None:
        nonlocal left
        left -= 1
        await append(log, events, cursor)
        if left == 0:
            raise Crash

    monkeypatch.setattr(MemoryFencedLog, "append", append_and_die)
    reached = []
    for _ in range(3):
        left = 2
        world.step(everything=True)
        last = world.runs[-1].cursor
        reached.append(0 if last is None else last.jobs)
    assert world.crashes == 1, "the second owner had less than two steps left"
    assert 4_000 <= reached[0] < 7_000
    assert reached[1] >= 6_000
    assert sum(len(decode_group(value).entries) for _, value in world.index.values()) == 7_000
    assert not world.replayed.fold(len(world.runs)).runs


def test_the_next_owner_reads_no_definition_again_that_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(5_000, HOURLY)
    world.step(everything=True)
    world.define(JobCreated(job_id="one more", spec=ONCE, at=world.now, created_at=world.now))
    world.step(everything=True)
    world.life = world.owned = None
    read = MemoryLog.read
    stretches = []

    def note(log: MemoryLog, after: int, through: int) -> object:
        if log._entries is world.job_entries:
            stretches.append(through - after)
        return read(log, after, through)

    monkeypatch.setattr(MemoryLog, "read", note)
    world.step(everything=True)
    assert sum(stretches) <= 1, "but for the last, whose void entries may be left"


def test_only_what_is_in_doubt_is_published_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty runs are queued, and nobody takes them. Then the acknowledgement of ten more does not come: those go out
    again, marked; and only those of them that had not arrived are new to the queue, and asked for."""
    world = world_of(40, ONCE)
    for _ in range(3):
        world.step(everything=True)
    assert len(world.work) == len(queued_runs(world)) == 40
    publish = MemoryWorkQueue.publish
    published: list[WorkItem] = []
    fails = True

    async def publish_a_part(queue: MemoryWorkQueue, messages: Sequence[WorkMessage]) -> None:
        nonlocal fails
        published.extend(item for message in messages for item in message.items)
        await publish(queue, messages[:4] if fails else messages)
        if fails:
            fails = False
            raise WorkInDoubt("no acknowledgement")

    monkeypatch.setattr(MemoryWorkQueue, "publish", publish_a_part)
    for number in range(10):
        world.define(JobCreated(job_id=f"more{number}", spec=ONCE, at=world.now, created_at=world.now))
    for _ in range(3):
        world.step(everything=True)
    again = [item for item in published if item.recovered]
    assert len(published) == 20
    assert {item.job_id for item in again} == {f"more{number}" for number in range(10)}
    assert sum(work.recovered for work in world.work.values()) == 6

    executors = Counted(world)
    settle(world, executors)
    assert len(executors.asked) == 6, "nobody asks for what was certain to be there"
    assert judge(world).clean
    assert world.term == 1, "and it was no reason to give the partition up"


def test_a_new_owner_brings_nothing_to_the_queue_that_is_there() -> None:
    world = world_of(40, ONCE)
    for _ in range(3):
        world.step(everything=True)
    world.life = world.owned = None
    world.now += SECOND
    for _ in range(3):
        world.step(everything=True)
    executors = Counted(world)
    settle(world, executors)
    assert not executors.asked
    assert judge(world).clean


class Counted(Executors):
    """Knows who asked before the first execution."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.asked: set[str] = set()

    def drain(self) -> bool:
        for message in self.world.work.values():
            for work in message.works:
                if message.recovered and (work.run_id, work.queued) not in self.executed:
                    self.asked.add(work.run_id)
        return super().drain()


def test_what_comes_due_after_a_first_takeover_was_cut_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition never had an owner, so nothing says up to when it is decided."""
    later = Schedule(schedule_type="FUTURE", schedule_time=datetime_of(EPOCH + 300 * SECOND))
    world = world_of(2_500, replace(ONCE, schedule=later))
    append = MemoryFencedLog.append

    async def append_and_die(log: MemoryFencedLog, events: Sequence[RunEvent], cursor: Cursor) -> None:
        await append(log, events, cursor)
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFencedLog, "append", append_and_die)
        world.step(everything=True)
    assert world.crashes == 1
    world.now += 4_000 * SECOND
    settle(world, Executors(world))
    assert judge(world).clean
    assert len(queued_runs(world)) == 2_500


def test_a_fire_that_jitter_has_put_off_is_found_by_who_takes_over() -> None:
    """Its minute has passed and is no longer read when the owner dies; it is due later."""
    late = replace(HOURLY, schedule=replace(HOURLY.schedule, jitter_seconds=3_000))
    world = world_of(20, late)
    world.step(everything=True)
    hour = EPOCH // (3_600 * SECOND) * 3_600 * SECOND + 3_600 * SECOND
    for minute in range(1, 56):
        world.now = hour + minute * 60 * SECOND
        world.step(everything=True)
        if minute % 5 == 0:
            world.life = world.owned = None
    settle(world, Executors(world))
    assert judge(world).clean
    runs = [run for frame in world.runs for run in frame.events if isinstance(run, RunQueued)]
    assert {run.scheduled for run in runs} == {hour}
    assert len({run.run_id for run in runs}) == 20
