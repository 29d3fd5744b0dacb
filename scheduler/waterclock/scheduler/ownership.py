"""Which partitions this scheduler owns: leases taken, kept and handed over as members come and go."""

import asyncio
import logging

from msgspec import Struct

from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.rendezvous import assigned
from waterclock.core.jetstream.errors import Conflict, LogError, LogUnavailable
from waterclock.core.jetstream.lease import Lease
from waterclock.core.runtime.tasks import Tasks, supervised
from waterclock.proto import names
from waterclock.proto.heartbeats import PartitionStatus
from waterclock.proto.verdicts import InstanceState
from waterclock.scheduler.jetstream.adapters import Connections, ports_for
from waterclock.scheduler.loop import PartitionLoop
from waterclock.scheduler.membership import BEAT, Membership
from waterclock.scheduler.ports import LeaseLost

_POLL = 0.25
"""How often a partition that should be ours is tried for: a dead owner's lease is noticed that soon."""

_log = logging.getLogger(__name__)


class _Owned(Struct, frozen=True):
    loop: PartitionLoop
    lease: Lease
    task: asyncio.Task[None]

    @property
    def status(self) -> PartitionStatus | None:
        return self.loop.status(self.lease.token)


class Ownership:
    """`tasks`: where the loops of the partitions run. A partition that fails is given up and taken again; it ends
    nothing but itself."""

    def __init__(self, shared: Connections, tasks: Tasks, *, ttl: float) -> None:
        self._shared = shared
        self._tasks = tasks
        self._ttl = ttl
        self._membership = Membership(shared.control, shared.instance)
        self._owned: dict[int, _Owned] = {}
        self._releasing: set[asyncio.Task[None]] = set()
        """Partitions that have ended and whose lease is being given back."""
        self._state: InstanceState = "running"
        self._hint = asyncio.Event()

    @property
    def statuses(self) -> list[PartitionStatus]:
        """Of the partitions that are taken over."""
        return [status for owned in self._owned.values() if (status := owned.status) is not None]

    async def first_round(self) -> None:
        """Join, take what is ours, and wait until it is loaded."""
        await self._beat()
        await self._round()
        for owned in list(self._owned.values()):
            await owned.loop.loaded.wait()

    async def keep(self) -> None:
        """Until cancelled."""

        async def hinted(_: object) -> None:
            self._hint.set()

        await self._shared.connection.nc.subscribe(names.HANDOVER, cb=hinted)
        stop_watching = self._shared.connection.on_reconnect(self._reconnected)
        try:
            async with supervised() as tasks:
                tasks.keep(self._beats(), name="heartbeats of the scheduler")
                await self._rounds()
        finally:
            stop_watching()

    async def leave(self) -> None:
        """Hand everything over: the others see the leases free at once."""
        self._state = "leaving"
        try:
            await self._beat()
        except LogError:
            _log.warning("the log is away; leases will run out by themselves")
        leaving = list(self._owned.values())
        for owned in leaving:
            owned.loop.stop()
        await asyncio.gather(*(owned.task for owned in leaving), *self._releasing, return_exceptions=True)
        try:
            await self._membership.leave()
        except LogError:
            pass

    # -- rounds -----------------------------------------------------------------------------------------

    async def _beats(self) -> None:
        while True:
            try:
                await self._beat()
            except LogError as error:
                _log.warning("no heartbeat: %s", error)
            await asyncio.sleep(BEAT)

    async def _beat(self) -> None:
        await self._membership.beat(self._state, self.statuses)

    async def _rounds(self) -> None:
        while True:
            try:
                await self._round()
            except LogError as error:
                _log.warning("the log is away: %s", error)
            self._hint.clear()
            try:
                async with asyncio.timeout(_POLL):
                    await self._hint.wait()
            except TimeoutError:
                pass

    async def _round(self) -> None:
        members = await self._membership.members() | {self._shared.instance}
        mine = assigned(self._shared.instance, members, self._shared.partitions)
        for number, owned in self._owned.items():
            if number not in mine:
                owned.loop.stop()
        await asyncio.gather(*(self._try_to_own(number) for number in mine - self._owned.keys()))

    # -- one partition ----------------------------------------------------------------------------------

    async def _try_to_own(self, number: int) -> None:
        lease = Lease(
            self._shared.connection,
            self._shared.publisher,
            names.RUNS,
            names.lease_subject(number),
            holder=self._shared.instance,
            ttl=self._ttl,
        )
        if await lease.acquire() is None:
            return
        loop = PartitionLoop(ports_for(self._shared, number, lease))
        task = self._tasks.spawn(self._own(loop, lease), name=f"partition {number}")
        self._owned[number] = _Owned(loop, lease, task)

    async def _own(self, loop: PartitionLoop, lease: Lease) -> None:
        """Run a partition for as long as its lease is renewed; then give it back, or give it up."""
        number = loop.partition
        try:
            async with supervised() as tasks:
                tasks.keep(self._renew(lease), name=f"lease of partition {number}")
                await loop.run()
        except (LeaseLost, Conflict, LogUnavailable, Diverged) as error:
            self._shared.metrics.gave_up(type(error).__name__)
            _log.warning("gave up partition %d: %s", number, error)
        except Exception:
            self._shared.metrics.gave_up("Failed")
            _log.exception("partition %d failed; it is rebuilt from the log", number)
        finally:
            self._release(number)
            loop.loaded.set()  # or it never will be, and nobody need wait for it
        try:
            await lease.release()
            await self._shared.connection.nc.publish(names.HANDOVER, b"")
        except Exception as error:
            _log.info("the lease of partition %d runs out by itself: %s", number, error)

    def _release(self, number: int) -> None:
        """Another round may take it again at once; who leaves waits until its lease is given back."""
        owned = self._owned.pop(number, None)
        if owned is not None:
            self._releasing.add(owned.task)
            owned.task.add_done_callback(self._releasing.discard)

    async def _renew(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(self._ttl / 4)
            await lease.keep()

    def _reconnected(self) -> None:
        for owned in self._owned.values():
            owned.loop.recover()
        self._hint.set()
