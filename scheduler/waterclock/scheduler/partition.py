"""One partition while this scheduler owns it: read, decide, carry out, in one task.

A pass waits for its frame to be acknowledged before anything follows from it, and the next pass waits for that.
When the log is away or the lease is lost, the partition is given up as it is: whoever takes it next, perhaps this same
process, rebuilds it from the log.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waterclock.core.domain.partition.decided import Lacking, Pass
from waterclock.core.domain.partition.index import HORIZON, MINUTE
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.post import Letter
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.partition.unread import Diverged
from waterclock.core.domain.workflow.errors import Unusable
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.pull import Delivery, Pull
from waterclock.core.store.store import StoreError
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame, encode
from waterclock.proto.events import Frame, RunEvent
from waterclock.proto.spec import JobSpec
from waterclock.scheduler.claims import Claims
from waterclock.scheduler.fenced_log import FencedLog, LeaseLost
from waterclock.scheduler.lines import Lines, Unreadable
from waterclock.scheduler.pausing import pause_job
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.snapshots import Snapshots
from waterclock.scheduler.status import PartitionStatus
from waterclock.scheduler.takeover import take_over
from waterclock.scheduler.timing_index import TimingIndex
from waterclock.scheduler.work import recovered_message, work_message

_FRAME_EVENTS = 500
_PASS_DEFINITIONS = 500
"""A pass reads about this many definitions, so that a flood of them does not hold up what is due."""
_RECOVER_CHUNK = 500
_PASS_INTERVALS = ((15, 0.04), (3, 0.02), (0, 0.004))
"""After a pass that decided so many things the next one is so much later, at least: what comes due in between shares a
frame. A frame costs a sync, and sixteen partitions share a disk."""
_STORE_PAUSE = 2_000_000
"""How long until a store that is away is asked again, in microseconds."""
_LAST_FRAMES = 0.5
_SNAPSHOT_SECONDS = 30.0
_SNAPSHOT_EVENTS = 20_000

_log = logging.getLogger(__name__)


class Partition:
    def __init__(self, ports: Ports, partition: int, lease: Lease) -> None:
        self.partition = partition
        self._ports = ports
        self._lease = lease
        self._writer = f"{ports.instance}/{lease.token}"
        self._mark = encode({"writer": self._writer})[:-1] + b","
        """How a frame of ours begins: it need not be decoded when it comes back."""
        self._log = FencedLog(ports.publisher, partition, lease, self._writer)
        self._index = TimingIndex(ports.timing, partition)
        self._snapshots = Snapshots(ports.control, partition)
        self._claims = Claims(ports, partition)
        self._lines = Lines(ports.artifacts)
        self._wake = asyncio.Event()
        self._stopping = False
        self._jobs: list[Delivery] = []
        self._runs: list[Delivery] = []
        self._to_recover: list[str] = []
        self._consumed = 0
        self._own_through = 0
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
            self._to_recover = [run.run_id for run in self._owner.state.runs.values() if run.works]
            self._wake.set()

    async def run(self) -> None:
        began = time.monotonic()
        taken = await take_over(self._ports, self.partition, self._index, self._snapshots)
        self._ports.tally.took_over(time.monotonic() - began)
        owner = self._owner = taken.owner
        self._consumed = taken.consumed
        self._own_through = taken.consumed
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
            await self._publish_again(taken.suspects)
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
        owner.settle(now)
        self._read_jobs(owner, now)
        claims = await self._claims.decide(owner, now)
        owner.tick(now)
        decided = owner.take_pass()
        self._next_pass = began + next(
            pause for count, pause in _PASS_INTERVALS if len(decided.events) >= count
        )
        await self._carry_out(owner, decided)
        await self._claims.answer(claims)
        self._ports.tally.passed(time.monotonic() - began)
        await self._maintain(owner)

    def _read_runs(self, owner: Owner) -> None:
        runs, self._runs[:] = self._runs[:], []
        for delivery in runs:
            if delivery.data.startswith(self._mark):
                owner.observe_own(delivery.sequence)
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

    async def _carry_out(self, owner: Owner, decided: Pass) -> None:
        """The order is part of the protocol; see waterclock.core.domain.partition.owner."""
        while decided:
            if decided.index:
                await self._index.write(decided.index_changes())
            if decided.events:
                self._since_snapshot += len(decided.events)
                self._own_through = await self._log.append(decided.events, owner.state.cursor)
                owner.wrote(self._own_through, decided.events)
                self._ports.tally.decided(decided.events)
            for job_id, version in decided.forgotten.items():
                await self._index.forget(job_id, version)
            owner.cleaned(owner.state.cursor.jobs)
            if decided.queued:
                await self._ports.publisher.publish_work(
                    [work_message(event, spec) for event, spec in decided.queued]
                )
                owner.published(self._own_through)
            await self._follow_up(decided)
            for job_id, version in decided.starved:
                spec = await self._definition(job_id, version)
                owner.provide(job_id, version, spec, self._ports.clock.now_us())
            for run_id, lacking in decided.lacking.items():
                await self._supply(owner, run_id, lacking)
            if decided.letters:
                await self._post(decided.letters)
                owner.delivered(decided.letters, self._ports.clock.now_us())
            decided = owner.take_pass()

    async def _post(self, letters: list[Letter]) -> None:
        """Tell other partitions, or this one as if it were another: the log is where they meet."""
        by_partition: dict[int, list[RunEvent]] = {}
        for letter in letters:
            partition = names.partition_of(letter.to, self._ports.partitions)
            by_partition.setdefault(partition, []).append(letter.event)
        for partition, events in by_partition.items():
            for start in range(0, len(events), _FRAME_EVENTS):
                frame = Frame(
                    writer=f"{self._writer}/post", events=tuple(events[start : start + _FRAME_EVENTS])
                )
                await self._ports.publisher.publish(names.runs_subject(partition), encode(frame))

    async def _supply(self, owner: Owner, run_id: str, lacking: Lacking) -> None:
        """Read the lines a fan-out needs. A store that is away is asked again when the partition is next looked at."""
        try:
            lines, total = await self._lines.read(run_id, lacking)
        except Unreadable as error:
            owner.deny(run_id, str(error), self._ports.clock.now_us())
        except StoreError as error:
            _log.warning("cannot read a fan-out's lines", extra={"run_id": run_id, "error": str(error)})
            owner.ask_again(run_id, self._ports.clock.now_us() + _STORE_PAUSE)
        else:
            owner.supply(run_id, lacking.start, lines, total, self._ports.clock.now_us())

    async def _follow_up(self, decided: Pass) -> None:
        connection = self._ports.connection
        for run_id in decided.withdrawn:
            await connection.api(f"STREAM.PURGE.{names.WORK}", {"filter": f"wc.work.*.*.*.{run_id}.>"})
        for executor_id, request in decided.stops:
            await connection.nc.publish(names.stop_subject(executor_id or "all"), encode(request))
        for job_id, note in decided.pauses:
            await pause_job(self._ports.definitions, job_id, note)

    async def _load(self, owner: Owner, now: int) -> None:
        """Nothing is decided for a time whose part of the index is not in memory, however far the clock jumped."""
        if owner.schedules.loaded_until - now > HORIZON:
            return
        first, last = owner.schedules.loaded_until // MINUTE, (now + HORIZON) // MINUTE
        owner.load(await self._index.minutes(first, last), (last + 1) * MINUTE, now)
        await self._index.purge_before(owner.state.cursor.time - MINUTE)

    async def _maintain(self, owner: Owner) -> None:
        if self._to_recover:
            chunk, self._to_recover = (
                self._to_recover[:_RECOVER_CHUNK],
                self._to_recover[_RECOVER_CHUNK:],
            )
            runs = owner.state.runs
            await self._publish_again([runs[run_id] for run_id in chunk if run_id in runs])
            self._wake.set()

    async def _publish_again(self, runs: list[Run]) -> None:
        """Work that may be lost. What the queue still holds it refuses to take twice."""
        assert self._owner is not None
        messages = []
        for run in runs:
            spec = await self._spec_of(self._owner, run)
            if spec is not None and run.works:
                messages.append(recovered_message(run, spec))
        if messages:
            await self._ports.publisher.publish_work(messages)

    async def _spec_of(self, owner: Owner, run: Run) -> JobSpec | None:
        try:
            if (spec := owner.spec_of(run)) is not None:
                return spec
            spec = await self._definition(run.job_id, run.version)
            if spec is None:
                return None
            owner.learn(run.job_id, run.version, spec)
            return owner.spec_of(run)
        except Unusable:
            return None

    async def _definition(self, job_id: str, version: int) -> JobSpec | None:
        """As it was at a version; None when the log no longer holds it."""
        found = await self._ports.definitions.at(job_id, version)
        return None if found is None else found.job.spec

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
            owner.state, consumed=self._consumed, own_through=self._own_through, writer=self._writer
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
