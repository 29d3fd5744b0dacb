"""The scheduler's ports in memory: lists and dicts of the world, and at every call a chance that the owner dies, waits
or stands still (life.py). What is fenced is refused once somebody else owns the partition; all else happens."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec
from msgspec import Struct

from simulation.life import Life
from simulation.replay import check_live
from waterclock.core.domain.partition.decisions import LinesNeeded
from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.store.store import StoreError
from waterclock.proto import names
from waterclock.proto.events import Cursor, JobEvent, RunEvent
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import StopRequest
from waterclock.scheduler.jetstream.logs import frames_of
from waterclock.scheduler.metrics import SchedulerMetrics
from waterclock.scheduler.ports import (
    Claim,
    Entry,
    Feed,
    LeaseLost,
    Ports,
    Snapshot,
    WorkInDoubt,
    WorkMessage,
)
from waterclock.scheduler.timing.timing_index import Stored as TimingValue
from waterclock.scheduler.timing.timing_index import TimingIndex

PARTITION = 3
READ = 0.2
"""A read is less likely to be where the owner dies than a write: nothing comes of it."""
PUBLISH = 0.1
"""So is one message of many."""


class Stored(Struct, frozen=True):
    """An entry of a log."""

    sequence: int
    data: bytes


class MemoryLog:
    def __init__(self, life: Life, entries: list[Stored]) -> None:
        self._life = life
        self._entries = entries

    async def check_reaches(self, sequence: int) -> None:
        assert sequence <= len(self._entries)

    async def end(self) -> int:
        return len(self._entries)

    async def read(self, after: int, through: int) -> AsyncIterator[Sequence[Entry]]:
        await self._life.end(READ)
        middle = self._life.world.rng.randint(after, through) if after < through else after
        for start, end in ((after, middle), (middle, through)):
            if start < end:
                yield self._entries[start:end]

    def follow(self, after: int) -> AbstractAsyncContextManager[Feed]:
        raise NotImplementedError("the world decides what arrives when")


class MemoryFencedLog:
    def __init__(self, life: Life) -> None:
        self.writer = f"owner/{life.term}"
        self.last = 0
        self._life = life
        self._world = life.world

    @property
    def is_certain(self) -> bool:
        return self._life.is_certain

    async def keep_lease(self) -> None:
        if not self._life.is_certain:
            self._life.check_fence()
            self._life.is_certain = True
        await self._life.end()

    async def append(self, events: Sequence[RunEvent], cursor: Cursor) -> None:
        """In the log once, or refused. When the acknowledgement was lost and the partition has changed hands since, the
        repetition is known by its id or refused by the fence."""
        world, life = self._world, self._life
        await life.begin()
        life.check_fence()
        for frame in frames_of(self.writer, events, cursor, size=world.frame_size):
            self.last = world.append(frame)
        await life.end()
        if not life.is_current and world.rng.random() < 0.5:
            raise LeaseLost("the acknowledgement was lost, and then the lease")

    async def send(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            await self._life.begin()
            for frame in frames_of(f"{self.writer}/post", [notice.event], None, size=1):
                self._world.append(frame)
            await self._life.end()


class MemoryTimingStore:
    def __init__(self, life: Life) -> None:
        self.writer = str(life.term)
        self._life = life
        self._world = life.world

    async def scan(self, pattern: str) -> list[TimingValue]:
        await self._life.end(READ)
        found = self._find(pattern)
        self._world.rng.shuffle(found)
        return found

    async def keys(self, pattern: str) -> list[str]:
        return [key for key, _ in await self.scan(pattern)]

    async def get(self, keys: Sequence[str]) -> list[TimingValue]:
        await self._life.end(READ)
        return [found for key in keys for found in self._find(key)]

    async def some(self, pattern: str) -> list[TimingValue]:
        await self._life.end(READ)
        return self._find(pattern)[: self._world.rng.randint(1, 3)]

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        world, life = self._world, self._life
        await life.begin()
        if world.index_is_fenced:
            life.check_fence()
        for key, value in changes.items():
            life.index_known = world.index_revision = world.index_revision + 1
            if value is None:
                if key in world.index:
                    world.index_deleted[key] = world.index.pop(key)
            else:
                world.index_deleted.pop(key, None)
                world.index[key] = (world.index_revision, value)
        await life.end()

    async def remove_hot(self, void: Mapping[str, int]) -> None:
        for job_id, version in void.items():
            await self._life.begin()
            for key, _ in self._find(names.timing_hot_of_job(PARTITION, job_id)):
                if int(key.rpartition(".")[2]) <= version:
                    self._purge(key)
            await self._life.end()

    async def purge(self, *patterns: str) -> None:
        for pattern in patterns:
            await self._life.begin(READ)
            self._purge(pattern)
            await self._life.end(READ)

    def _find(self, pattern: str) -> list[TimingValue]:
        self._life.index_known = max(self._life.index_known, self._world.index_revision)
        return [(key, value) for key, (_, value) in self._world.index.items() if _matches(pattern, key)]

    def _purge(self, pattern: str) -> None:
        """What was written since we last read or wrote stays."""
        for index in (self._world.index, self._world.index_deleted):
            for key, (revision, _) in list(index.items()):
                if _matches(pattern, key) and revision <= self._life.index_known:
                    del index[key]


def _matches(pattern: str, key: str) -> bool:
    wanted, parts = pattern.split("."), key.split(".")
    return len(wanted) == len(parts) and all(
        each in ("*", part) for each, part in zip(wanted, parts, strict=True)
    )


class MemorySnapshots:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._world = life.world

    def is_due(self, changes: int) -> bool:
        return self._world.rng.random() < 0.05

    async def write(self, snapshot: Snapshot) -> None:
        if self._life.is_current:
            check_live(self._world.replayed, snapshot.state, snapshot.consumed)
            logged = self._world.runs[snapshot.own_through - 1].cursor
            assert logged == snapshot.state.cursor, "a snapshot is ahead of the log"
        data = msgspec.json.encode(snapshot.state)
        await self._life.begin()
        self._world.snapshot = (data, snapshot)
        await self._life.end()

    async def read(self) -> Snapshot | None:
        await self._life.end(READ)
        if self._world.snapshot is None:
            return None
        data, snapshot = self._world.snapshot
        return msgspec.structs.replace(snapshot, state=msgspec.json.decode(data, type=PartitionState))


class MemoryDefinitions:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._world = life.world

    async def specs_at(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], JobSpec | None]:
        found: dict[tuple[str, int], JobSpec | None] = {}
        for job_id, version in wanted:
            await self._life.end(READ)
            event = self._world.jobs[version - 1]
            assert event.job_id == job_id
            found[job_id, version] = event.spec
        return found

    async def before(
        self, changed: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[JobEvent, int] | None]:
        found: dict[tuple[str, int], tuple[JobEvent, int] | None] = {}
        for job_id, version in changed:
            await self._life.end(READ)
            earlier = enumerate(self._world.jobs[: version - 1], 1)
            found[job_id, version] = next(
                ((event, number) for number, event in reversed(list(earlier)) if event.job_id == job_id), None
            )
        return found

    async def pause(self, job_id: str, note: str) -> None:
        await self._life.begin()
        self._world.pause(job_id)
        await self._life.end()


class MemoryLines:
    """A few lines at a time; and sometimes the store is away."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._world = life.world

    async def read(self, run_id: str, needed: LinesNeeded) -> tuple[list[str], int]:
        world = self._world
        await self._life.end(READ)
        if world.rng.random() < world.crash_chance:
            raise StoreError("the store is away")
        lines = world.files[needed.artifact]
        end = needed.start + min(needed.count, world.rng.randint(1, 4))
        return lines[needed.start : end], 0 if needed.counted else len(lines)


_LOST = 9
"""One of so many messages that nobody is asked about."""


class MemoryWorkQueue:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._sent = 0
        self._world = life.world

    async def publish(self, messages: Sequence[WorkMessage]) -> bool:
        """Every other lone message is sent without asking, and some of those do not arrive."""
        world, life = self._world, self._life
        self._sent += 1
        is_lone = len(messages) == 1 and not messages[0].parcel and not messages[0].items[0].recovered
        if is_lone and self._sent % 2 and life.is_certain:
            if self._sent % _LOST:
                world.queue_work(messages[0])
            await life.end(PUBLISH)
            return False
        for message in messages:
            await life.begin(PUBLISH)
            if not life.is_certain and not message.items[0].recovered:
                raise WorkInDoubt("somebody may have taken us for dead")
            world.queue_work(message)
            await life.end(PUBLISH)
            if world.rng.random() < world.delay_chance * PUBLISH:
                raise WorkInDoubt("no acknowledgement")
        return True

    async def withdraw(self, run_id: str) -> None:
        await self._life.begin(PUBLISH)
        work = self._world.work
        for key in [key for key in work if key[0] == run_id and not key[2]]:
            del work[key]
        await self._life.end(PUBLISH)

    async def recall(self, run_id: str, queued: int) -> None:
        await self._life.begin(PUBLISH)
        self._world.recalled[run_id] = queued
        await self._life.end(PUBLISH)


class MemoryExecutors:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._world = life.world

    async def has_run(self, executor_id: str, run_id: str) -> bool:
        await self._life.end(READ)
        holder = self._world.holding.get(run_id)
        return holder is not None and holder[0] == executor_id

    async def stop(self, executor_id: str | None, request: StopRequest) -> None:
        await self._life.begin(PUBLISH)
        self._world.stops.append((executor_id, request))
        await self._life.end(PUBLISH)

    def claims(self, receive: Callable[[Claim], None]) -> AbstractAsyncContextManager[None]:
        raise NotImplementedError("the world decides who claims what")


class MemoryRoom:
    """So many runs may be queued or running on a route; without a limit, any number."""

    saturated = False
    served = None

    def __init__(self, life: Life) -> None:
        self._world = life.world
        self.used: Counter[tuple[str, int]] = Counter()

    def has(self, route: str, priority: int = 0) -> bool:
        limit = self._world.room_limit
        return limit is None or self.used[route, priority] < limit

    def waits_for_slots(self, route: str) -> bool:
        return False

    def parcel_size(self, route: str) -> int:
        return self._world.parcel_size

    def has_exact_lines(self, route: str) -> bool:
        return True

    def began(self, route: str, priority: int = 0) -> None:
        self.used[route, priority] += 1

    def ended(self, route: str, ran: int | None, priority: int = 0, count: int = 1) -> None:
        self.used[route, priority] -= count
        assert self.used[route, priority] >= 0, f"more runs ended on {route} than had begun"


class MemoryClock:
    def __init__(self, life: Life) -> None:
        self._world = life.world

    def now_us(self) -> int:
        return self._world.now


def memory_ports(life: Life) -> Ports:
    world = life.world
    return Ports(
        partition=PARTITION,
        runs=MemoryLog(life, world.run_entries),
        jobs=MemoryLog(life, world.job_entries),
        decisions=MemoryFencedLog(life),
        index=TimingIndex(MemoryTimingStore(life), PARTITION, world.spans, world.crowded),
        snapshots=MemorySnapshots(life),
        definitions=MemoryDefinitions(life),
        lines=MemoryLines(life),
        work=MemoryWorkQueue(life),
        executors=MemoryExecutors(life),
        room=MemoryRoom(life),
        capacity=lambda: world.capacity,
        clock=MemoryClock(life),
        metrics=SchedulerMetrics(),
    )
