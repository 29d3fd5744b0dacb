"""One partition while this scheduler owns it: wait, do one pass, wait again.

When somebody else has taken the partition or a reader has ended, it is given up as it is: whoever takes it next,
perhaps this same process, rebuilds it from the log. When the log is away, it waits.
"""

import asyncio
import time
from collections.abc import Callable

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.runtime.tasks import supervised
from waterclock.proto.heartbeats import PartitionStatus
from waterclock.scheduler.load import PartitionLoad
from waterclock.scheduler.one_pass import Inbox, OwnedPartition, PassResult
from waterclock.scheduler.pace import Pace, next_stroke
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.reader import Reader
from waterclock.scheduler.takeover import Rebuilt, take_over

_LAST_FRAMES = 0.5


class PartitionLoop:
    """First `take_over`, then `run`. `loaded` is set when what is due is being decided. `sharing`: how many partitions
    there are in this process."""

    def __init__(self, ports: Ports, *, loaded: asyncio.Event, sharing: Callable[[], int]) -> None:
        self.partition = ports.partition
        self._sharing = sharing
        self._loaded = loaded
        self._ports = ports
        self._pace = Pace()
        self._inbox = Inbox(self._pace.wake)
        self._runs = Reader(self._inbox.runs, self._runs_arrived, self._pace.wake)
        self._jobs = Reader(self._inbox.jobs, self._pace.wake, self._pace.wake)
        self._stopping = False
        self._taken: Rebuilt | None = None
        self._owned: OwnedPartition | None = None

    def status(self, token: int | None) -> PartitionStatus | None:
        """None: it is not taken over yet."""
        if self._owned is None:
            return None
        owner = self._owned.owner
        cursor, near = owner.state.cursor, owner.schedules.near
        return PartitionStatus(
            partition=self.partition,
            token=token or 0,
            jobs_cursor=cursor.jobs,
            time_cursor=cursor.time,
            active_runs=len(owner.state.runs),
            armed=len(owner.schedules.armed),
            lag_seconds=owner.lag(self._ports.clock.now_us()) / SECOND,
            backlog=len(owner.backlog) + near.unread,
            unread=self._unread(self._owned),
            settled=cursor.settled_jobs,
            waits_since=min(
                filter(None, (owner.backlog.waits_since, near.loaded_until if near.unread else None)),
                default=None,
            ),
        )

    @property
    def load(self) -> PartitionLoad | None:
        """None: it is not taken over yet."""
        return (
            None
            if self._owned is None
            else PartitionLoad(
                self._owned.owner.backlog,
                unread=self._unread(self._owned),
                not_in_memory=self._owned.owner.schedules.near.unread,
                behind_since=self._owned.owner.schedules.near.loaded_until,
                runs=self._owned.owner.state.runs,
            )
        )

    @property
    def state(self) -> PartitionState | None:
        """None: it is not taken over yet."""
        return None if self._owned is None else self._owned.owner.state

    def _unread(self, owned: OwnedPartition) -> int:
        """How many definitions have not been read, about."""
        return round(self._jobs.unread * owned.definitions_in_message)

    def wake(self) -> None:
        """Do a pass, although nothing is due."""
        self._pace.wake()

    def _runs_arrived(self) -> None:
        """Mostly nothing follows: own frames come back, and runs have succeeded for which nobody waits. During a pass
        nothing is read; we look when it is over."""
        if (
            self._stopping
            or self._owned is None
            or (self._pace.is_waiting and not self._owned.read_between_passes())
        ):
            self._pace.wake()

    def stop(self) -> None:
        """Finish the pass in hand, write a snapshot, and end."""
        self._stopping = True
        self._pace.wake()

    def recover(self) -> None:
        """The server was away, and may have lost work messages."""
        if self._owned is not None:
            self._owned.recover()
            self._pace.wake()

    async def take_over(self) -> None:
        """Rebuild the partition. Raises LeaseLost."""
        began = time.monotonic()
        self._taken = await take_over(self._ports)
        self._ports.metrics.took_over(time.monotonic() - began)

    async def run(self) -> None:
        """Until told to stop. Raises LeaseLost, Diverged, and whatever ended a reader."""
        taken = self._taken
        assert taken is not None
        owned = self._owned = OwnedPartition(self._ports, taken, self._inbox)
        with self._pace:
            await self._pass_after_pass(taken, owned)

    async def _pass_after_pass(self, taken: Rebuilt, owned: OwnedPartition) -> None:
        ports, inbox = self._ports, self._inbox
        async with (
            ports.runs.follow(taken.consumed) as runs,
            ports.jobs.follow(taken.owner.state.cursor.jobs) as jobs,
            ports.executors.claims(inbox.receive_claim),
            supervised() as tasks,
        ):
            tasks.keep(self._runs.run(runs), name=f"runs of partition {self.partition}")
            tasks.keep(self._jobs.run(jobs), name=f"definitions of partition {self.partition}")
            owned.recover()
            self._loaded.set()
            before = 0.0
            while not self._stopping:
                result = await owned.one_pass()
                self._runs.taken()
                self._jobs.taken()
                await self._wait(owned, result, before)
                before = result.began
            await self._last_snapshot(owned)

    async def _wait(self, owned: OwnedPartition, result: PassResult, before: float) -> None:
        """Until something arrived or is due, but not before the stroke. `before`: when the pass before it began."""
        if result.more or not owned.read_between_passes():
            self._pace.wake()
        due, load_at = owned.owner.next_due(), owned.near_future.next_listing()
        wait = (load_at if due is None else min(due, load_at)) - self._ports.clock.now_us()
        stroke = next_stroke(result.began, result.decided, self._sharing(), before)
        await self._pace.wait(
            not_before=0.0 if result.hurry else stroke,
            due=time.monotonic() + wait / SECOND,
        )

    async def _last_snapshot(self, owned: OwnedPartition) -> None:
        """Whoever comes next then has little to replay. Waits a moment for own frames to come back."""
        try:
            async with asyncio.timeout(_LAST_FRAMES):
                while not owned.owner.is_caught_up:
                    owned.read_runs()
                    self._runs.taken()
                    if not owned.owner.is_caught_up:
                        await self._pace.wait(not_before=0.0, due=time.monotonic() + _LAST_FRAMES)
        except (TimeoutError, Diverged):
            return
        await owned.write_snapshot()
