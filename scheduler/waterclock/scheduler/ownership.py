"""Which partitions this scheduler owns: leases taken, kept and handed over as members come and go."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.rendezvous import assigned
from waterclock.core.jetstream.connection import Broadcast
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.runtime.tasks import Tasks
from waterclock.proto import names
from waterclock.proto.heartbeats import PartitionStatus
from waterclock.scheduler.jetstream.adapters import Connections, open_ports
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.load import PartitionLoad
from waterclock.scheduler.loop import PartitionLoop
from waterclock.scheduler.membership import Membership
from waterclock.scheduler.ports import LeaseLost, Ports

_POLL = 0.25
"""How often a partition that should be ours, and that somebody else holds, is tried for."""
_QUIET = 5.0
"""How often members and partitions are compared when nothing has changed."""
_TAKEOVERS = 2
"""How many partitions are rebuilt at a time. One after the other gets to work, instead of all at the very end; and of
several schedulers that begin together, each gets some."""
_LEAVE = 5.0
"""How long a partition may take to end when we leave. It takes longer only if the log is away."""

_FAILS_AGAIN = 3
_LATELY = 600.0
"""A partition that has failed three times in ten minutes is not helped by being rebuilt."""

_log = logging.getLogger(__name__)


class _Partition:
    """One that is ours, or that we try to get. One task runs it."""

    def __init__(self, number: int, lease: Lease) -> None:
        self.number = number
        self.lease = lease
        self.loop: PartitionLoop | None = None
        """None: it is not ours yet."""
        self.settled = asyncio.Event()
        """It is taken over, or that has failed."""
        self.stopping = False
        self.task: asyncio.Task[None] | None = None

    @property
    def status(self) -> PartitionStatus | None:
        return None if self.loop is None else self.loop.status(self.lease.token)

    def own(self, ports: Ports, sharing: Callable[[], int]) -> PartitionLoop:
        self.loop = PartitionLoop(ports, loaded=self.settled, sharing=sharing)
        if self.stopping:
            self.loop.stop()
        return self.loop

    def stop(self) -> None:
        """Finish the pass in hand, and give the lease back."""
        self.stopping = True
        if self.loop is not None:
            self.loop.stop()


class Failures:
    """Which partitions fail again and again: to rebuild one does not help it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at: dict[int, deque[float]] = {}

    def add(self, partition: int) -> None:
        self._at.setdefault(partition, deque(maxlen=_FAILS_AGAIN)).append(self._clock())

    def again_and_again(self) -> list[int]:
        since = self._clock() - _LATELY
        return sorted(
            partition
            for partition, times in self._at.items()
            if len(times) == _FAILS_AGAIN and times[0] > since
        )


class Ownership:
    """`tasks`: where the partitions run. One that fails is given up and taken again; it ends nothing but itself."""

    def __init__(self, shared: Connections, tasks: Tasks, *, dead_after: float) -> None:
        self._failures = Failures()
        self._shared = shared
        self._tasks = tasks
        self._partitions: dict[int, _Partition] = {}
        self._takeovers = asyncio.Semaphore(_TAKEOVERS)
        self._hint = asyncio.Event()
        self._begun = asyncio.Event()
        self.membership = Membership(
            shared.connection, shared.instance, dead_after=dead_after, changed=self._hint.set
        )

    @property
    def statuses(self) -> list[PartitionStatus]:
        """Of the partitions that are taken over."""
        found = (partition.status for partition in list(self._partitions.values()))
        return [status for status in found if status is not None]

    @property
    def loads(self) -> list[PartitionLoad]:
        """What waits in the partitions that are taken over."""
        loops = [partition.loop for partition in list(self._partitions.values())]
        return [load for loop in loops if loop is not None and (load := loop.load) is not None]

    def state_of(self, number: int) -> PartitionState | None:
        """What is known of a partition's runs, to be read and not changed; None if it is not ours."""
        partition = self._partitions.get(number)
        return None if partition is None or partition.loop is None else partition.loop.state

    async def settled(self) -> None:
        """Wait until what is ours at first is loaded."""
        await self._begun.wait()
        for partition in list(self._partitions.values()):
            await partition.settled.wait()

    async def keep(self) -> None:
        """Until cancelled."""

        async def hinted(_: object) -> None:
            self._hint.set()

        await self.membership.begun()
        await self._shared.connection.nc.subscribe(names.HANDOVER, cb=hinted)
        stop_watching = self._shared.connection.on_reconnect(self._reconnected)
        try:
            while True:
                complete = self._round()
                self._begun.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_QUIET if complete else _POLL):
                        await self._hint.wait()
                self._hint.clear()
        finally:
            stop_watching()

    def check(self) -> None:
        """Somebody may have taken us for dead: let every partition ask whether it is still ours, also one that has
        nothing to do."""
        for partition in self._partitions.values():
            if partition.loop is not None:
                partition.loop.wake()

    async def leave(self) -> None:
        """Hand everything over: the others see the leases free at once."""
        leaving = list(self._partitions.values())
        for partition in leaving:
            partition.stop()
        running = [partition.task for partition in leaving if partition.task is not None]
        if not running:
            return
        _, left = await asyncio.wait(running, timeout=_LEAVE)
        if left:
            _log.warning("the log is away: others will take %d partitions once they find us dead", len(left))
            for task in left:
                task.cancel()
            await asyncio.wait(left)

    # -- rounds -----------------------------------------------------------------------------------------

    def _round(self) -> bool:
        """Whether everything that should be ours is taken."""
        shared = self._shared
        mine = assigned(shared.instance, self.membership.running(), shared.partitions)
        for number, partition in self._partitions.items():
            if number not in mine:
                partition.stop()
        for number in sorted(mine - self._partitions.keys()):
            lease = Lease(
                shared.connection,
                shared.publisher,
                names.RUNS,
                names.lease_subject(number),
                holder=shared.instance,
            )
            partition = self._partitions[number] = _Partition(number, lease)
            partition.task = self._tasks.spawn(self._run(partition), name=f"partition {number}")
        return all(partition.loop is not None for partition in self._partitions.values())

    def failing(self) -> list[int]:
        return self._failures.again_and_again()

    # -- one partition ----------------------------------------------------------------------------------

    async def _run(self, partition: _Partition) -> None:
        try:
            await self._own(partition)
        finally:
            partition.settled.set()
            del self._partitions[partition.number]
            asyncio.get_running_loop().call_later(_POLL, self._hint.set)

    async def _own(self, partition: _Partition) -> None:
        """Take it if it is to be had, run it for as long as it is ours, then give it back or give it up.

        That the log is away is no reason to give it up: whatever needs the log waits for it, and if somebody else has
        taken the partition meanwhile, the log will say so.
        """
        number, lease, credit = partition.number, partition.lease, self._shared.credit
        room = credit.open()
        try:
            async with self._takeovers:
                if partition.stopping or not await self._acquire(lease):
                    return
                ports = await open_ports(self._shared, number, lease, room)
                loop = partition.own(ports, lambda: len(self._partitions))
                await loop.take_over()
            await loop.run()
        except (LeaseLost, Conflict, Diverged) as error:
            self._shared.metrics.gave_up(type(error).__name__)
            _log.warning("gave up partition %d: %s", number, error)
        except Exception:
            self._shared.metrics.gave_up("Failed")
            self._failures.add(number)
            _log.exception("partition %d failed; it is rebuilt from the log", number)
        finally:
            credit.close(room)
        await lease.release()
        Broadcast(self._shared.connection)(names.HANDOVER, b"")

    async def _acquire(self, lease: Lease) -> bool:
        token = await until_known(lease.subject, lambda: lease.acquire(self.membership.is_dead))
        return token is not None

    def _reconnected(self) -> None:
        for partition in self._partitions.values():
            if partition.loop is not None:
                partition.loop.recover()
