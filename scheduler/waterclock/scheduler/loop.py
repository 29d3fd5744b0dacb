"""One partition while this scheduler owns it: read, decide, carry out, in one task.

A pass waits for its frame to be acknowledged before anything follows from it, and the next pass waits for that.
When the log is away or the lease is lost, the partition is given up as it is: whoever takes it next, perhaps this same
process, rebuilds it from the log.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.timing_index import HORIZON
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.pull import Delivery, Pull
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame, encode
from waterclock.proto.heartbeats import PartitionStatus
from waterclock.scheduler.carry_out import CarryingOut
from waterclock.scheduler.claims import Claims
from waterclock.scheduler.fenced_log import FencedLog, LeaseLost
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.snapshots import Snapshots
from waterclock.scheduler.takeover import take_over
from waterclock.scheduler.timing_index import TimingIndex
from waterclock.scheduler.work_recovery import Recovery

_PASS_DEFINITIONS = 500
"""A pass reads about this many definitions, so that a flood of them does not hold up what is due."""
_PASS_INTERVALS = ((15, 0.04), (3, 0.02), (0, 0.004))
"""After a pass that decided so many things the next one is so much later, at least: what comes due in between shares a
frame. A frame costs a sync, and sixteen partitions share a disk."""
_LAST_FRAMES = 0.5
_SNAPSHOT_SECONDS = 30.0
_SNAPSHOT_EVENTS = 20_000


class Partition:
    def __init__(self, ports: Ports, partition: int, lease: Lease) -> None:
        self.partition = partition
        self._ports = ports
        self._lease = lease
        self._log = FencedLog(ports.publisher, partition, lease, f"{ports.instance}/{lease.token}")
        self._mark = encode({"writer": self._log.writer})[:-1] + b","
        """How a frame of ours begins: it need not be decoded when it comes back."""
        self._index = TimingIndex(ports.timing, partition)
        self._snapshots = Snapshots(ports.control, partition)
        self._claims = Claims(ports, partition)
        self._carrying_out = CarryingOut(ports, self._log, self._index)
        self._recovery = Recovery(ports)
        self._wake = asyncio.Event()
        self._stopping = False
        self._jobs: list[Delivery] = []
        self._runs: list[Delivery] = []
        self._consumed = 0
        self._since_snapshot = 1
        """Events decided and definitions read; the takeover's own reading counts as one."""
        self._snapshot_at = time.monotonic()
        self._next_pass = 0.0
        self._owner: Owner | None = None
        self.loaded = asyncio.Event()

    @property
    def status(self) -> PartitionStatus | None:
        owner = self._owner
        if owner is None:
            return None
        cursor = owner.state.cursor
        due = owner.next_due()
        return PartitionStatus(
            partition=self.partition,
            token=self._lease.token or 0,
            jobs_cursor=cursor.jobs,
            time_cursor=cursor.time,
            active_runs=len(owner.state.runs),
            armed=len(owner.schedules.armed),
            lag_seconds=max(0.0, (self._ports.clock.now_us() - due) / 1e6) if due is not None else 0.0,
        )

    def stop(self) -> None:
        """Finish the pass in hand, write a snapshot, and end."""
        self._stopping = True
        self._wake.set()

    def recover(self) -> None:
        """The server may have lost work messages: compare the queue with what should be in it."""
        if self._owner is not None:
            self._recovery.begin(self._owner)
            self._wake.set()

    async def run(self) -> None:
        began = time.monotonic()
        taken = await take_over(self._ports, self.partition, self._index, self._snapshots)
        self._ports.tally.took_over(time.monotonic() - began)
        owner = self._owner = taken.owner
        self._consumed = taken.consumed
        connection = self._ports.connection
        jobs = Pull.ordered(
            connection,
            names.JOBS,
            [names.jobs_of_partition(self.partition)],
            after_sequence=owner.state.cursor.jobs,
        )
        runs = Pull.ordered(
            connection, names.RUNS, [names.runs_subject(self.partition)], after_sequence=self._consumed
        )
        async with (
            jobs as job_pull,
            runs as run_pull,
            self._pumping(job_pull, self._jobs),
            self._pumping(run_pull, self._runs),
            self._claims.listening(self._wake),
        ):
            await self._recovery.publish_again(owner, taken.suspects)
            self.recover()
            self.loaded.set()
            while not self._stopping:
                await self._step(owner)
                await self._wait(owner)
            await self._last_snapshot(owner)

    # -- the loop ---------------------------------------------------------------------------------------

    async def _wait(self, owner: Owner) -> None:
        """Until something arrived or is due, but not sooner than the pass interval allows."""
        pause = self._next_pass - time.monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        due = owner.next_due()
        now = self._ports.clock.now_us()
        load_in = owner.schedules.loaded_until - HORIZON - now
        wait = load_in if due is None else min(due - now, load_in)
        if wait <= 0:
            return
        try:
            async with asyncio.timeout(wait / 1e6):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _step(self, owner: Owner) -> None:
        self._wake.clear()
        try:
            await self._lease.keep()
        except Conflict as error:
            raise LeaseLost(f"partition {self.partition} was not kept in time: {error}") from error
        began = time.monotonic()
        now = self._ports.clock.now_us()
        await self._load(owner, now)
        self._read_runs(owner)
        if self._snapshot_is_due:
            await self._snapshot(owner)
        owner.follow_up(now)
        self._read_jobs(owner, now)
        claims = await self._claims.decide(owner, now)
        owner.tick(now)
        decided = owner.take_pass()
        self._next_pass = began + next(
            pause for count, pause in _PASS_INTERVALS if len(decided.events) >= count
        )
        self._since_snapshot += await self._carrying_out.carry_out(owner, decided)
        await self._claims.answer(claims)
        self._ports.tally.passed(time.monotonic() - began)
        if self._recovery:
            await self._recovery.go_on(owner)
            self._wake.set()

    def _read_runs(self, owner: Owner) -> None:
        runs, self._runs[:] = self._runs[:], []
        for delivery in runs:
            if delivery.data.startswith(self._mark):
                owner.observe_own_frame(delivery.sequence)
            else:
                owner.observe_frame(decode_frame(delivery.data), delivery.sequence)
            self._consumed = delivery.sequence

    def _read_jobs(self, owner: Owner, now: int) -> None:
        taken = events = 0
        while taken < len(self._jobs) and events < _PASS_DEFINITIONS:
            delivery = self._jobs[taken]
            changes = decode_job_frame(delivery.data).events
            for event in changes:
                owner.observe_job(event, delivery.sequence, now)
            taken, events = taken + 1, events + len(changes)
        self._since_snapshot += events
        del self._jobs[:taken]
        if self._jobs:
            self._wake.set()

    async def _load(self, owner: Owner, now: int) -> None:
        """Nothing is decided for a time whose part of the index is not in memory, however far the clock jumped."""
        if owner.schedules.loaded_until - now > HORIZON:
            return
        first, last = owner.schedules.loaded_until // MINUTE, (now + HORIZON) // MINUTE
        owner.load(await self._index.minutes(first, last), (last + 1) * MINUTE, now)
        await self._index.purge_before(owner.state.cursor.time - MINUTE)

    async def _last_snapshot(self, owner: Owner) -> None:
        """Whoever comes next then has little to replay. Waits a moment for own frames to come back."""
        try:
            async with asyncio.timeout(_LAST_FRAMES):
                while not owner.is_caught_up:
                    self._wake.clear()
                    self._read_runs(owner)
                    if not owner.is_caught_up:
                        await self._wake.wait()
        except (TimeoutError, Diverged):
            return
        await self._snapshot(owner)

    @property
    def _snapshot_is_due(self) -> bool:
        return self._since_snapshot > 0 and (
            self._since_snapshot >= _SNAPSHOT_EVENTS
            or time.monotonic() - self._snapshot_at > _SNAPSHOT_SECONDS
        )

    async def _snapshot(self, owner: Owner) -> None:
        """Not while own frames are on their way back: an outcome may stand before them that contradicts them."""
        if not owner.is_caught_up:
            return
        self._since_snapshot = 0
        self._snapshot_at = time.monotonic()
        await self._snapshots.write(
            owner.state, consumed=self._consumed, own_through=self._log.last, writer=self._log.writer
        )

    @asynccontextmanager
    async def _pumping(self, pull: Pull, into: list[Delivery]) -> AsyncIterator[None]:
        async def pump() -> None:
            while True:
                into.extend(await pull.next())
                self._wake.set()

        task = asyncio.create_task(pump())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
