"""A partition's whole world in memory: log, index, queue, clock; and an owner that may die or stand still at every call
it makes.

Owner, takeover and pass are the scheduler's own; only their ports (memory.py) are not. Time passes, messages arrive and
others act when the world says so. An owner that stands still is a coroutine that is not resumed: another one takes the
partition over, and some time the first goes on.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from simulation.life import Crash, Life, StandsStill
from simulation.memory import Stored, memory_ports
from simulation.replay import Replayed, check_live, check_rebuilt
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.owner import Owner
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import Frame, JobEvent, JobFrame, RunEvent, RunQueued
from waterclock.proto.work import ClaimReply, ClaimRequest, StopRequest, WorkItem
from waterclock.scheduler.one_pass import OwnedPartition
from waterclock.scheduler.ports import Claim, LeaseLost, Snapshot, WorkMessage
from waterclock.scheduler.takeover import rebuild, take_over
from waterclock.scheduler.timing.near_future import Capacity

EPOCH = 1_790_000_000_000_000
LAG = SECOND
"""How long a definition may be in the log before the owner that lives has read it."""

T = TypeVar("T")


Process = Coroutine[Any, Any, None]
"""What a process is doing: a takeover, or a pass."""


@dataclass
class Work:
    """An attempt that is to be executed."""

    item: WorkItem
    crash_count: int

    @property
    def run_id(self) -> str:
        return self.item.run_id

    @property
    def attempt(self) -> int:
        return self.item.attempt

    @property
    def queued(self) -> int:
        return self.item.queued


@dataclass
class Message:
    """Of the work queue."""

    key: tuple[str, int, bool]
    works: list[Work]
    recovered: bool = False
    delivered: int = 0
    holder: str | None = None

    @property
    def is_parcel(self) -> bool:
        return self.key[2]


@dataclass
class World:
    rng: random.Random
    crash_chance: float = 0.02
    delay_chance: float = 0.0
    """That a call is slow, or the owner stands still in it."""
    now: int = EPOCH
    jobs: list[JobEvent] = field(default_factory=list)
    job_entries: list[Stored] = field(default_factory=list)
    runs: list[Frame] = field(default_factory=list)
    run_entries: list[Stored] = field(default_factory=list)
    index: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """key -> revision, value."""
    index_deleted: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """What was deleted and not purged: a server that dies finds it in its files again."""
    index_revision: int = 0
    index_is_fenced: bool = True
    spans: tuple[int, ...] = (1, 2, 6)
    """Hours in the longer slots of the index: few, so that they are opened in a life."""
    crowded: int = 1_000
    """From so many entries on a minute of the index is divided."""
    capacity: Capacity = field(default_factory=lambda: Capacity(10_000, 10_000))
    """How many schedules are in memory."""
    work: dict[tuple[str, int, bool], Message] = field(default_factory=dict)
    """Run id or a parcel's name, when it was queued, whether it is a parcel -> message."""
    holding: dict[str, tuple[str, Work]] = field(default_factory=dict)
    """run id -> (executor, work): attempts that execute now."""
    recalled: dict[str, int] = field(default_factory=dict)
    """Run id -> what was queued up to then is not to be executed."""
    parcel_size: int = 1
    """How many attempts may travel in one message."""
    parcels: int = 0
    """How many messages carried more than one."""
    returned: int = 0
    left_out: int = 0
    """Of attempts in parcels: how many were given back, and how many recalled before they began."""
    missed_in_queue: int = 0
    """How many runs their owner has ended because nobody had begun them."""
    taken_late: int = 0
    """How many were taken by an executor after their start deadline."""
    stops: list[tuple[str | None, StopRequest]] = field(default_factory=list)
    snapshot: tuple[bytes, Snapshot] | None = None
    life: Life | None = None
    """The owner's process. None: it is dead, or taken for dead."""
    owned: OwnedPartition | None = None
    term: int = 0
    stale: list[tuple[Life, Process, OwnedPartition | None]] = field(default_factory=list)
    """Those who were taken for dead, where they stand, and what they own."""
    awakened: int = 0
    refused: int = 0
    downtimes: list[tuple[int, int]] = field(default_factory=list)
    """When no owner is known to have lived."""
    alive_logged: int = 0
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
        """What is read is what was written, not what was in memory. No two entries have the same time."""
        self.now += 1
        data = encode(frame)
        self.runs.append(decode_frame(data))
        self.run_entries.append(Stored(len(self.runs), data))
        if frame.cursor is not None:
            self.alive_logged = max(self.alive_logged, frame.cursor.alive)
        return len(self.runs)

    # -- the queue ----------------------------------------------------------------------------------------

    def queue_work(self, message: WorkMessage) -> None:
        """The queue holds one message of a run, or of a parcel, and a time."""
        first = message.items[0]
        key = message.parcel or first.run_id, first.queued, bool(message.parcel)
        if key not in self.work:
            works = [Work(item, item.crash_count) for item in message.items]
            assert len({item.queued for item in message.items}) == 1
            self.work[key] = Message(key, works, first.recovered)
            self.parcels += len(works) > 1

    def lose_work(self) -> None:
        """The server died: it forgets what it had not yet written of the queue, and has again what was deleted."""
        self.index = self.index_deleted | self.index
        self.index_deleted = {}
        for key in [key for key, message in self.work.items() if message.holder is None]:
            if self.rng.random() < 0.5:
                del self.work[key]
        for owned in (self.owned, *(owned for *_, owned in self.stale)):
            if owned is not None:
                owned.recover()

    # -- the owner ----------------------------------------------------------------------------------------

    def step(self, everything: bool = False) -> None:
        """One pass; all that is in the log has arrived, or as much as happened to."""
        if self.life is None:
            self.term += 1
            self.life = Life(self, self.term, index_known=self.index_revision)
            self._check_rebuilt(self.life)
            self._run(self.life, self._take_over(self.life))
        if self.owned is not None and self.life is not None:
            self._arrive(everything)
            self.owned.read_between_passes()
            self._run(self.life, self._one_pass(self.life, self.owned))

    def wake_stale(self) -> None:
        """One that was taken for dead goes on where it stood. It finishes its pass, if nothing refuses it before."""
        if not self.stale:
            return
        self.awakened += 1
        life, process, owned = self.stale.pop(self.rng.randrange(len(self.stale)))
        if life.is_current:  # nobody has taken its place
            self.life, self.owned = life, owned
            if owned is not None:
                self._arrive(False)
        self._run(life, process)

    def claim(self, request: ClaimRequest) -> list[ClaimReply]:
        """Ask the owner. The answer comes into this list: at once, later if it stands still, or never if it dies."""
        replies: list[ClaimReply] = []
        life = self.life

        async def answer(reply: ClaimReply) -> None:
            assert life is not None
            await life.begin()
            replies.append(reply)
            await life.end()

        if life is not None:
            life.inbox.receive_claim(Claim(request, answer))
            self.step()
        return replies

    def starve(self, seconds: int, *, alive: bool) -> None:
        """No pass for a while. `alive`: the heartbeats go on, only the pass comes late."""
        self.now += seconds * SECOND
        if self.life is not None and not alive:
            self.life.is_certain = False

    def be_slow(self, life: Life) -> None:
        """Time passes in a call, while heartbeats go on."""
        self.now += self.rng.choice([0, 0, 1, 3, 15]) * SECOND + self.rng.randrange(SECOND)
        if life is self.life and self.owned is not None:
            self._arrive(False)

    def maybe_crash(self, scale: float = 1.0) -> None:
        if self.immortal:
            return
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse == 0:
                raise Crash
        if self.rng.random() < self.crash_chance * scale:
            raise Crash

    def _run(self, life: Life, work: Process) -> None:
        """Let a process go on until its work is done, it ends, or it stands still."""
        try:
            while True:
                owned = self.owned if life is self.life else None
                if isinstance(work.send(None), StandsStill) and not self._is_found_alive(life):
                    self.stale.append((life, work, owned))
                    return
        except StopIteration:
            return
        except Crash:
            self.crashes += 1
        except Diverged:
            self.rebuilds += 1
        except LeaseLost:
            assert not life.is_current, "an owner that nobody replaced was refused"
            self.refused += 1
        if life is self.life:
            self.life = self.owned = None

    def _is_found_alive(self, life: Life) -> bool:
        """Whether it goes on before anybody has taken its place."""
        if life is not self.life:
            return self.rng.random() < 0.5
        life.is_certain = False
        self.now += self.rng.choice([2, 2, 5, 20, 60]) * SECOND
        if self.rng.random() < 0.5:
            if self.owned is not None:
                self._arrive(False)
            return True
        self.life = self.owned = None
        return False

    async def _take_over(self, life: Life) -> None:
        ports, began, since = memory_ports(life), self.now, self.alive_logged
        try:
            taken = await take_over(ports)
        finally:
            self.downtimes.append((since, self.now))
        if not life.is_current:
            return
        owned = OwnedPartition(ports, taken, life.inbox)
        self.runs_arrived = taken.consumed
        self.jobs_arrived, self.jobs_arrived_at = taken.owner.state.cursor.jobs, began
        owned.recover()
        self.owned = owned

    async def _one_pass(self, life: Life, owned: OwnedPartition) -> None:
        was_certain, since = life.is_certain, owned.owner.state.cursor.alive
        try:
            await owned.one_pass()
        finally:
            if not was_certain:
                self.downtimes.append((since, self.now))
        if life.is_current and owned.owner.is_caught_up:
            check_live(self.replayed, owned.owner.state, owned.consumed)

    def _check_rebuilt(self, life: Life) -> None:
        self.immortal = True
        rebuilt = drive(rebuild(memory_ports(life)))
        self.immortal = False
        snapshot = None if self.snapshot is None else self.snapshot[1]
        known = None if snapshot is None else max(snapshot.consumed, snapshot.own_through)
        check_rebuilt(self.replayed, rebuilt.owner.state, rebuilt.consumed, known)

    def _arrive(self, everything: bool) -> None:
        assert self.life is not None
        end = len(self.runs) if everything else self.rng.randint(self.runs_arrived, len(self.runs))
        self.life.inbox.runs += self.run_entries[self.runs_arrived : end]
        self.runs_arrived = end
        if everything or self.now - self.jobs_arrived_at > LAG:
            end, self.jobs_arrived_at = len(self.jobs), self.now
        else:
            end = self.rng.randint(self.jobs_arrived, len(self.jobs))
        self.life.inbox.jobs += self.job_entries[self.jobs_arrived : end]
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
