"""The scheduler's ports in memory: lists and dicts of the world, and at every call a chance that the owner dies."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from simulation.replay import check_live
from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.decisions import LinesNeeded
from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.partition.timing_index import IndexEntry, decode_entry
from waterclock.core.store.store import StoreError
from waterclock.proto.events import Cursor, RunEvent
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import StopRequest, WorkItem
from waterclock.scheduler.jetstream.logs import frames_of
from waterclock.scheduler.metrics import SchedulerMetrics
from waterclock.scheduler.ports import Claim, Entry, Feed, Ports, Snapshot

if TYPE_CHECKING:
    from simulation.world import World

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
    def __init__(self, world: "World", entries: list[Stored]) -> None:
        self._world = world
        self._entries = entries

    async def check_reaches(self, sequence: int) -> None:
        assert sequence <= len(self._entries)

    async def end(self) -> int:
        return len(self._entries)

    async def read(self, after: int, through: int) -> AsyncIterator[Sequence[Entry]]:
        self._world.maybe_crash(READ)
        middle = self._world.rng.randint(after, through) if after < through else after
        for start, end in ((after, middle), (middle, through)):
            if start < end:
                yield self._entries[start:end]

    def follow(self, after: int) -> AbstractAsyncContextManager[Feed]:
        raise NotImplementedError("the world decides what arrives when")


class MemoryFencedLog:
    def __init__(self, world: "World", term: int) -> None:
        self.writer = f"owner/{term}"
        self.last = 0
        self.is_certain = True
        self._world = world
        self._term = term

    async def keep_lease(self) -> None:
        self._world.maybe_crash()

    async def append(self, events: Sequence[RunEvent], cursor: Cursor) -> None:
        world = self._world
        assert self._term == world.term, "an owner that died wrote"
        for frame in frames_of(self.writer, events, cursor, size=world.frame_size):
            self.last = world.append(frame)
        world.maybe_crash()

    async def send(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            for frame in frames_of(f"{self.writer}/post", [notice.event], None, size=1):
                self._world.append(frame)
            self._world.maybe_crash()


class MemoryIndex:
    def __init__(self, world: "World") -> None:
        self._world = world

    async def hot(self) -> list[IndexEntry]:
        self._world.maybe_crash(READ)
        return [decode_entry(value) for key, value in self._world.index.items() if key.split(".")[1] == "hot"]

    async def minutes(self, first: int, last: int) -> list[IndexEntry]:
        self._world.maybe_crash(READ)
        found = [
            decode_entry(value)
            for key, value in self._world.index.items()
            if (minute := _minute(key)) is not None and first <= minute <= last
        ]
        self._world.rng.shuffle(found)
        return found

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self._world.index.pop(key, None)
            else:
                self._world.index[key] = value
        self._world.maybe_crash()

    async def remove(self, job_id: str, version: int) -> None:
        def is_void(key: str) -> bool:
            *_, of_job, of_version = key.split(".")
            return of_job == job_id and int(of_version) <= version

        for key in [key for key in self._world.index if is_void(key)]:
            del self._world.index[key]
        self._world.maybe_crash()

    async def purge_before(self, instant: int) -> None:
        index = self._world.index
        for key in list(index):
            if (minute := _minute(key)) is not None and (minute + 1) * MINUTE <= instant:
                del index[key]
        self._world.maybe_crash(READ)


def _minute(key: str) -> int | None:
    _, group, rest = key.split(".", 2)
    return None if group == "hot" else int(group) * 60 + int(rest.partition(".")[0])


class MemorySnapshots:
    def __init__(self, world: "World") -> None:
        self._world = world

    def is_due(self, changes: int) -> bool:
        return self._world.rng.random() < 0.05

    async def write(self, snapshot: Snapshot) -> None:
        check_live(self._world.replayed, snapshot.state, snapshot.consumed)
        self._world.snapshot = (msgspec.json.encode(snapshot.state), snapshot)
        self._world.maybe_crash()

    async def read(self) -> Snapshot | None:
        self._world.maybe_crash(READ)
        if self._world.snapshot is None:
            return None
        data, snapshot = self._world.snapshot
        return msgspec.structs.replace(snapshot, state=msgspec.json.decode(data, type=PartitionState))


class MemoryDefinitions:
    def __init__(self, world: "World") -> None:
        self._world = world

    async def specs_at(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], JobSpec | None]:
        found: dict[tuple[str, int], JobSpec | None] = {}
        for job_id, version in wanted:
            self._world.maybe_crash(READ)
            event = self._world.jobs[version - 1]
            assert event.job_id == job_id
            found[job_id, version] = event.spec
        return found

    async def pause(self, job_id: str, note: str) -> None:
        self._world.pause(job_id)
        self._world.maybe_crash()


class MemoryLines:
    """A few lines at a time; and sometimes the store is away."""

    def __init__(self, world: "World") -> None:
        self._world = world

    async def read(self, run_id: str, needed: LinesNeeded) -> tuple[list[str], int]:
        world = self._world
        world.maybe_crash(READ)
        if world.rng.random() < world.crash_chance:
            raise StoreError("the store is away")
        lines = world.files[needed.artifact]
        end = needed.start + min(needed.count, world.rng.randint(1, 4))
        return lines[needed.start : end], 0 if needed.counted else len(lines)


class MemoryWorkQueue:
    def __init__(self, world: "World") -> None:
        self._world = world

    async def publish(self, items: Sequence[WorkItem]) -> None:
        for item in items:
            self._world.queue_work(item)
            self._world.maybe_crash(PUBLISH)

    async def withdraw(self, run_id: str) -> None:
        work = self._world.work
        for key in [key for key in work if key[0] == run_id]:
            del work[key]
        self._world.maybe_crash(PUBLISH)


class MemoryExecutors:
    def __init__(self, world: "World") -> None:
        self._world = world

    async def has_run(self, executor_id: str, run_id: str) -> bool:
        self._world.maybe_crash(READ)
        holder = self._world.holding.get(run_id)
        return holder is not None and holder[0] == executor_id

    async def stop(self, executor_id: str | None, request: StopRequest) -> None:
        self._world.stops.append((executor_id, request))
        self._world.maybe_crash(PUBLISH)

    def claims(self, receive: Callable[[Claim], None]) -> AbstractAsyncContextManager[None]:
        raise NotImplementedError("the world decides who claims what")


class MemoryRoom:
    """So many runs may be queued or running on a route; without a limit, any number."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.used: Counter[str] = Counter()

    def has(self, route: str) -> bool:
        return self._limit is None or self.used[route] < self._limit

    def began(self, route: str) -> None:
        self.used[route] += 1

    def ended(self, route: str, ran: int | None) -> None:
        self.used[route] -= 1
        assert self.used[route] >= 0, f"more runs ended on {route} than had begun"


class MemoryClock:
    def __init__(self, world: "World") -> None:
        self._world = world

    def now_us(self) -> int:
        return self._world.now


def memory_ports(world: "World", term: int) -> Ports:
    return Ports(
        partition=PARTITION,
        runs=MemoryLog(world, world.run_entries),
        jobs=MemoryLog(world, world.job_entries),
        decisions=MemoryFencedLog(world, term),
        index=MemoryIndex(world),
        snapshots=MemorySnapshots(world),
        definitions=MemoryDefinitions(world),
        lines=MemoryLines(world),
        work=MemoryWorkQueue(world),
        executors=MemoryExecutors(world),
        room=MemoryRoom(world.room_limit),
        clock=MemoryClock(world),
        metrics=SchedulerMetrics(),
    )
