"""However many one-shots are due soon, only so many are in memory; and each fires at its time, once."""

from datetime import UTC, datetime

from unit.domain.partition_owner import START, FewAtOnce
from unit.scheduler.timing_store import TimingKeys
from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.timing_index import HORIZON, NEAR, Void
from waterclock.proto.events import JobCancelled, JobCreated, RunQueued
from waterclock.proto.spec import JobSpec, Schedule, Shell
from waterclock.scheduler.takeover import load_minutes
from waterclock.scheduler.timing_index import TimingIndex

MOST = 40
TURN = 256
"""Beyond what there is room for."""


def spec_at(due: int) -> JobSpec:
    time = datetime.fromtimestamp(due / SECOND, UTC)
    return JobSpec(
        name="x",
        task=Shell(command="true"),
        schedule=Schedule(schedule_type="FUTURE", schedule_time=time),
    )


class Partition:
    """An owner with a real index over a dict, as a scheduler drives it."""

    def __init__(self, keys: dict[str, bytes], now: int, state: PartitionState | None = None) -> None:
        self.room = FewAtOnce(1_000_000)
        self.room.schedules = MOST
        self.owner = Owner(3, state or PartitionState(), now, self.room)
        self.index = TimingIndex(TimingKeys(keys, str(now)), 3)
        self.owner.wake(now)
        self.first = self.owner.state.cursor.time // MINUTE
        self.index.begin(self.first)
        self.fired: dict[str, int] = {}
        self.reads = 0

    async def one_pass(self, now: int) -> None:
        owner = self.owner
        owner.wake(now, lived=True)
        if owner.schedules.load_at <= now:
            self.reads += 1
            first = max(self.first, owner.schedules.loaded_until // MINUTE)
            await load_minutes(self.index, owner, first, now)
        owner.tick(now)
        decided = owner.take_pass()
        await self.index.write(decided.index, decided.hot)
        for event in decided.events:
            assert isinstance(event, RunQueued)
            assert event.run_id not in self.fired, "it fired twice"
            self.fired[event.run_id] = now - event.due


async def stored(count: int, seconds: int) -> tuple[Partition, dict[str, bytes]]:
    """A partition to which so many one-shots were given, due within so many seconds from half a minute on."""
    keys: dict[str, bytes] = {}
    partition = Partition(keys, START)
    await partition.one_pass(START)
    for number in range(count):
        due = START + 30 * SECOND + (number * 7919 % count) * seconds * SECOND // count
        event = JobCreated(job_id=f"job{number}", spec=spec_at(due), at=START, created_at=START)
        partition.owner.observe_job(event, number + 1, START)
    await partition.one_pass(START)
    return partition, keys


async def test_only_so_many_are_in_memory_and_each_fires_at_its_time() -> None:
    partition, _ = await stored(600, 60)
    armed = partition.owner.schedules.armed
    assert len(armed) == MOST
    for seconds in range(100):
        await partition.one_pass(START + seconds * SECOND)
        assert len(armed) <= MOST + TURN + 600 * 2 * NEAR // MINUTE, "and those that are near"
    assert len(partition.fired) == 600
    assert max(partition.fired.values()) < SECOND
    assert partition.reads < 30


async def test_whoever_takes_over_in_the_middle_has_no_more_in_memory_and_goes_on() -> None:
    partition, keys = await stored(600, 60)
    for seconds in range(60):
        await partition.one_pass(START + seconds * SECOND)
    now = START + 60 * SECOND
    after = Partition(keys, now, partition.owner.state)
    after.fired = partition.fired
    for seconds in range(60, 100):
        await after.one_pass(START + seconds * SECOND)
        assert len(after.owner.schedules.armed) <= MOST + TURN + 600 * 2 * NEAR // MINUTE
    assert len(after.fired) == 600


async def test_of_one_instant_all_are_in_memory() -> None:
    """What is decided is said by time: the log could not say which of them are."""
    partition, _ = await stored(600, 0)
    for seconds in range(31):
        await partition.one_pass(START + seconds * SECOND)
    while partition.owner.backlog:
        await partition.one_pass(START + 30 * SECOND)
    assert len(partition.fired) == 600


async def test_one_that_is_only_in_the_index_can_be_cancelled() -> None:
    partition, _ = await stored(600, 60)
    armed = partition.owner.schedules.armed
    number = next(number for number in range(600) if f"job{number}" not in armed)
    spec = spec_at(START + 30 * SECOND + (number * 7919 % 600) * SECOND // 10)
    cancelled = JobCancelled(job_id=f"job{number}", spec=spec, at=START, created_at=START)
    partition.owner.observe_job(cancelled, 700, START)
    (void,) = partition.owner.take_pass().void_entries
    assert (void.job_id, void.version, void.filed) == (f"job{number}", 699, None), "its definition says where"
    assert spec.schedule.schedule_time is not None
    due = int(spec.schedule.schedule_time.timestamp() * SECOND)
    await partition.index.void([Void(due, void.job_id, void.version)])
    for seconds in range(100):
        await partition.one_pass(START + seconds * SECOND)
    assert len(partition.fired) == 599


async def test_few_are_in_memory_up_to_the_horizon() -> None:
    partition, _ = await stored(MOST // 2, 60)
    assert len(partition.owner.schedules.armed) == MOST // 2
    assert partition.owner.schedules.loaded_until >= START + HORIZON
