"""A partition's whole world in memory: log, index, queue, clock; and an owner that may die at every call it makes.

Owner, takeover and pass are the scheduler's own; only their ports (memory.py) are not. Time passes, messages arrive and
others act when the world says so.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from simulation.memory import Stored, memory_ports
from simulation.replay import Replayed, check_live, check_rebuilt
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.owner import Owner
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import Frame, JobEvent, JobFrame, RunEvent, RunQueued
from waterclock.proto.work import ClaimReply, ClaimRequest, StopRequest, WorkItem
from waterclock.scheduler.one_pass import Inbox, OwnedPartition
from waterclock.scheduler.ports import Claim, Ports, Snapshot
from waterclock.scheduler.takeover import rebuild, take_over

EPOCH = 1_790_000_000_000_000
LAG = SECOND
"""How long a definition may be in the log before the owner that lives has read it."""

T = TypeVar("T")


class Crash(Exception):
    """The owner's process died here."""


@dataclass
class Work:
    run_id: str
    attempt: int
    queued: int
    recovered: bool = False
    delivered: int = 0
    holder: str | None = None


@dataclass
class World:
    rng: random.Random
    crash_chance: float = 0.02
    now: int = EPOCH
    jobs: list[JobEvent] = field(default_factory=list)
    job_entries: list[Stored] = field(default_factory=list)
    runs: list[Frame] = field(default_factory=list)
    run_entries: list[Stored] = field(default_factory=list)
    index: dict[str, bytes] = field(default_factory=dict)
    work: dict[tuple[str, int], Work] = field(default_factory=dict)
    holding: dict[str, tuple[str, Work]] = field(default_factory=dict)
    """run id -> (executor, work): attempts that execute now."""
    stops: list[tuple[str | None, StopRequest]] = field(default_factory=list)
    snapshot: tuple[bytes, Snapshot] | None = None
    owned: OwnedPartition | None = None
    inbox: Inbox = field(default_factory=Inbox)
    term: int = 0
    jobs_arrived: int = 0
    jobs_arrived_at: int = 0
    runs_arrived: int = 0
    crashes: int = 0
    rebuilds: int = 0
    fuse: int | None = None
    """Calls until the next crash that is bound to happen."""
    frame_size: int = 500
    """Events in one frame."""
    room_limit: int | None = None
    """How many runs a route may have at once."""
    files: dict[str, list[str]] = field(default_factory=dict)
    """Artifacts, by line."""
    pause: Callable[[str], None] = lambda _: None
    """Who pauses a job for the owner."""
    immortal: bool = False

    def __post_init__(self) -> None:
        self.replayed = Replayed(self.runs)

    @property
    def owner(self) -> Owner | None:
        return None if self.owned is None else self.owned.owner

    # -- the log, as others write it ----------------------------------------------------------------------

    def define(self, event: JobEvent) -> int:
        self.jobs.append(event)
        self.job_entries.append(Stored(len(self.jobs), encode(JobFrame(events=(event,)))))
        return len(self.jobs)

    def report(self, event: RunEvent) -> None:
        self.append(Frame(writer="others", events=(event,)))

    def append(self, frame: Frame) -> int:
        """What is read is what was written, not what was in memory."""
        data = encode(frame)
        self.runs.append(decode_frame(data))
        self.run_entries.append(Stored(len(self.runs), data))
        return len(self.runs)

    # -- the queue ----------------------------------------------------------------------------------------

    def queue_work(self, item: WorkItem) -> None:
        """The queue holds one message of a run and a time."""
        key = item.run_id, item.queued
        if key not in self.work:
            self.work[key] = Work(item.run_id, item.attempt, item.queued, item.recovered)

    def lose_work(self) -> None:
        """The server died, and forgets what it had not yet written of the queue."""
        for key in [key for key, work in self.work.items() if work.holder is None]:
            if self.rng.random() < 0.5:
                del self.work[key]
        if self.owned is not None:
            self.owned.recover()

    # -- the owner ----------------------------------------------------------------------------------------

    def step(self, everything: bool = False) -> None:
        """One pass; all that is in the log has arrived, or as much as happened to."""
        try:
            if self.owned is None:
                self._take_over()
            assert self.owned is not None
            self._arrive(everything)
            drive(self.owned.one_pass())
            if self.owned.owner.is_caught_up:
                check_live(self.replayed, self.owned.owner.state, self.owned.consumed)
        except Crash:
            self.crashes += 1
            self.owned = None
        except Diverged:
            self.rebuilds += 1
            self.owned = None

    def claim(self, request: ClaimRequest) -> str | None:
        """Ask the owner; no answer when it dies before its decision is in the log."""
        replies: list[ClaimReply] = []

        async def answer(reply: ClaimReply) -> None:
            replies.append(reply)

        if self.owned is not None:
            self.inbox.receive_claim(Claim(request, answer))
            self.step()
        return replies[0].verdict if replies else None

    def maybe_crash(self, scale: float = 1.0) -> None:
        if self.immortal:
            return
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse == 0:
                raise Crash
        if self.rng.random() < self.crash_chance * scale:
            raise Crash

    def _take_over(self) -> None:
        self.term += 1
        self.inbox = Inbox()
        ports = memory_ports(self, self.term)
        self._check_rebuilt(memory_ports(self, self.term))
        taken = drive(take_over(ports))
        owned = OwnedPartition(ports, taken, self.inbox)
        self.runs_arrived = taken.consumed
        self.jobs_arrived, self.jobs_arrived_at = taken.owner.state.cursor.jobs, self.now
        owned.recover()
        self.owned = owned

    def _check_rebuilt(self, ports: Ports) -> None:
        self.immortal = True
        rebuilt = drive(rebuild(ports))
        self.immortal = False
        snapshot = None if self.snapshot is None else self.snapshot[1]
        known = None if snapshot is None else max(snapshot.consumed, snapshot.own_through)
        check_rebuilt(self.replayed, rebuilt.owner.state, rebuilt.consumed, known)

    def _arrive(self, everything: bool) -> None:
        end = len(self.runs) if everything else self.rng.randint(self.runs_arrived, len(self.runs))
        self.inbox.runs += self.run_entries[self.runs_arrived : end]
        self.runs_arrived = end
        if everything or self.now - self.jobs_arrived_at > LAG:
            end, self.jobs_arrived_at = len(self.jobs), self.now
        else:
            end = self.rng.randint(self.jobs_arrived, len(self.jobs))
        self.inbox.jobs += self.job_entries[self.jobs_arrived : end]
        self.jobs_arrived = end


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Ports in memory never wait, so a coroutine needs no event loop: it goes on until it is done."""
    try:
        while work.send(None) is None:
            pass
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a port in memory waits for something")


def queued_runs(world: World) -> list[RunQueued]:
    return [event for frame in world.runs for event in frame.events if isinstance(event, RunQueued)]
