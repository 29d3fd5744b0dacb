"""What the takeover and the pass need of the outside, named by need and owned by them.

`jetstream/` implements these against the broker, `tests/simulation` against lists: so the simulation runs the real
takeover and the real pass, and dies at any of these calls. A call that is not here cannot be made by them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from waterclock.core.domain.partition.decisions import LinesNeeded
from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.domain.partition.room import Room
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.runtime.clock import Clock
from waterclock.proto.events import Cursor, Instant, JobEvent, RunEvent
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import ClaimReply, ClaimRequest, StopRequest, WorkItem
from waterclock.scheduler.metrics import SchedulerMetrics
from waterclock.scheduler.timing.near_future import Capacity
from waterclock.scheduler.timing.timing_index import TimingIndex


class LeaseLost(Exception):
    """Somebody else owns the partition now."""


class UnreadableLines(Exception):
    """The file is not there, or is not one of lines of text."""


class WorkInDoubt(Exception):
    """It is not known which of some work items are in the queue."""


# -- the log --------------------------------------------------------------------------------------------


class Entry(Protocol):
    """A message of a stream. It is decoded where it is read: our own frames need not be."""

    @property
    def sequence(self) -> int: ...

    @property
    def data(self) -> bytes: ...


class Feed(Protocol):
    @property
    def pending(self) -> int:
        """How many messages there are to be taken."""

    async def next(self) -> Sequence[Entry]:
        """Whatever has arrived, at least one message."""


class Log(Protocol):
    """What a stream has for this partition."""

    async def check_reaches(self, sequence: int) -> None:
        """Raise WrongLog if the stream ends before a sequence that was read from it."""

    async def end(self) -> int:
        """The sequence of the last entry; 0 if there is none."""

    def read(self, after: int, through: int) -> AsyncIterator[Sequence[Entry]]:
        """The entries in (after, through] that are still there, in batches."""

    def follow(self, after: int) -> AbstractAsyncContextManager[Feed]:
        """All that comes after a sequence, as it comes."""


class FencedLog(Protocol):
    """Where decisions are written. The broker refuses them unless the writer's lease is the current one."""

    @property
    def writer(self) -> str:
        """Names this ownership in the frames it writes."""

    @property
    def last(self) -> int:
        """The sequence of the last frame that was appended here; 0 if there was none."""

    @property
    def is_certain(self) -> bool:
        """Nobody can have taken the partition from us: our heartbeat was acknowledged a moment ago."""

    async def keep_lease(self) -> None:
        """Before a pass: ask whether the lease is still ours, if somebody may have taken us for dead. Raises
        LeaseLost."""

    async def append(self, events: Sequence[RunEvent], cursor: Cursor) -> None:
        """Raises LeaseLost. Events and cursor are one write: all of it is in the log, or nothing. Without events it is
        a fence and a checkpoint. Waits for a log that is away."""

    async def send(self, notices: Sequence[Notice]) -> None:
        """Write notices to the logs of the partitions they are for. Not fenced: they may arrive twice."""


# -- what is stored beside the log ----------------------------------------------------------------------


class Snapshot(Struct, frozen=True, kw_only=True):
    state: PartitionState
    consumed: int
    """Every foreign frame up to this sequence of `RUNS` is in the state."""
    own_through: int
    """So is every frame of `writer` up to this one, which may be later."""
    writer: str


class Snapshots(Protocol):
    def is_due(self, changes: int) -> bool:
        """Whether it is time for one: so much has changed since the last."""

    async def write(self, snapshot: Snapshot) -> None: ...

    async def read(self) -> Snapshot | None:
        """The last whole one that this version can read."""


class Definitions(Protocol):
    async def specs_at(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], JobSpec | None]:
        """Definitions (job, version) as they were then; None when the log no longer holds one. Each message of the log
        is read once, however many definitions are in it."""

    async def before(
        self, changed: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[JobEvent, int] | None]:
        """The definitions that some (job, version) have replaced, and their versions; None when the log no longer holds
        it."""

    async def pause(self, job_id: str, note: str) -> None:
        """Pause a schedule after failures in a row, as a user would. Harmless when repeated."""


class ArtifactLines(Protocol):
    async def read(self, run_id: str, needed: LinesNeeded) -> tuple[list[str], int]:
        """The lines, and how many the file has (0 if that is known already). Raises UnreadableLines, StoreError."""


# -- executors ------------------------------------------------------------------------------------------


class WorkMessage(Struct, frozen=True, gc=False):
    items: tuple[WorkItem, ...]
    parcel: str = ""
    """The run it is named after; empty: it is one attempt, and no parcel."""


class WorkQueue(Protocol):
    async def publish(self, messages: Sequence[WorkMessage]) -> bool:
        """What the queue still holds it refuses. Not atomic: a part of them may get there. Raises WorkInDoubt, also
        before it sends what is not marked as recovered while somebody may have taken the partition. False: it was sent,
        and nobody was asked whether it got there."""

    async def withdraw(self, run_id: str) -> None:
        """Remove the work of a run that nobody has taken yet."""

    async def recall(self, run_id: str, queued: Instant) -> None:
        """The same for one that travels in a parcel: whoever unpacks it leaves out what was queued up to then."""


class Claim(Struct, frozen=True):
    """An executor holds a work item that was delivered before, and asks whether it may run."""

    request: ClaimRequest
    answer: Callable[[ClaimReply], Awaitable[None]]


class Executors(Protocol):
    async def has_run(self, executor_id: str, run_id: str) -> bool:
        """Whether an executor lives and says that it runs this."""

    async def stop(self, executor_id: str | None, request: StopRequest) -> None:
        """None: whoever has it or gets it."""

    def claims(self, receive: Callable[[Claim], None]) -> AbstractAsyncContextManager[None]:
        """Hand over what executors ask of this partition."""


class Ports(Struct, frozen=True, kw_only=True):
    """All of them, for one partition under one lease."""

    partition: int
    runs: Log
    jobs: Log
    decisions: FencedLog
    index: TimingIndex
    snapshots: Snapshots
    definitions: Definitions
    lines: ArtifactLines
    work: WorkQueue
    executors: Executors
    room: Room
    capacity: Callable[[], Capacity]
    """How many schedules may be in memory."""
    clock: Clock
    metrics: SchedulerMetrics
