"""Which partitions this scheduler owns: leases taken, kept and handed over as members come and go."""

import asyncio
import logging

from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.rendezvous import assigned
from waterclock.core.jetstream.errors import Conflict, LogError, LogUnavailable
from waterclock.core.jetstream.lease import Lease
from waterclock.proto import names
from waterclock.proto.verdicts import InstanceState
from waterclock.scheduler.fenced_log import LeaseLost
from waterclock.scheduler.loop import Partition
from waterclock.scheduler.membership import BEAT, Membership
from waterclock.scheduler.ports import Ports

_POLL = 0.25
"""How often a partition that should be ours is tried for: a dead owner's lease is noticed that soon."""

_log = logging.getLogger(__name__)


class Ownership:
    def __init__(self, ports: Ports, *, partitions: int, ttl: float) -> None:
        self._ports = ports
        self._partitions = partitions
        self._ttl = ttl
        self._membership = Membership(ports.control, ports.instance)
        self._owned: dict[int, Partition] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._state: InstanceState = "running"
        self._hint = asyncio.Event()

    @property
    def owned(self) -> list[Partition]:
        return list(self._owned.values())

    async def first_round(self) -> None:
        """Join, take what is ours, and wait until it is loaded."""
        await self._beat()
        await self._round()
        for partition in self.owned:
            loaded = asyncio.create_task(partition.loaded.wait())
            task = self._tasks[partition.partition]
            await asyncio.wait([loaded, task], return_when=asyncio.FIRST_COMPLETED)
            loaded.cancel()

    async def keep(self) -> None:
        """Until cancelled."""

        async def hinted(_: object) -> None:
            self._hint.set()

        await self._ports.connection.nc.subscribe(names.HANDOVER, cb=hinted)
        stop_watching = self._ports.connection.on_reconnect(self._reconnected)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beats())
                group.create_task(self._rounds())
        finally:
            stop_watching()

    async def leave(self) -> None:
        """Hand everything over: the others see the leases free at once."""
        self._state = "leaving"
        try:
            await self._beat()
        except LogError:
            _log.warning("the log is away; leases will run out by themselves")
        for partition in self.owned:
            partition.stop()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
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
        statuses = [status for partition in self.owned if (status := partition.status) is not None]
        await self._membership.beat(self._state, statuses)

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
        members = await self._membership.members() | {self._ports.instance}
        mine = assigned(self._ports.instance, members, self._partitions)
        for number, partition in self._owned.items():
            if number not in mine:
                partition.stop()
        await asyncio.gather(*(self._try(number) for number in mine - self._owned.keys()))

    async def _try(self, number: int) -> None:
        lease = Lease(
            self._ports.connection,
            self._ports.publisher,
            names.RUNS,
            names.lease_subject(number),
            holder=self._ports.instance,
            ttl=self._ttl,
        )
        if await lease.acquire() is None:
            return
        partition = Partition(self._ports, number, lease)
        self._owned[number] = partition
        self._tasks[number] = asyncio.create_task(self._own(partition, lease))

    async def _own(self, partition: Partition, lease: Lease) -> None:
        """Run a partition for as long as its lease is renewed; then give it back, or give it up."""
        number = partition.partition
        running = asyncio.create_task(partition.run())
        renewing = asyncio.create_task(self._renew(lease))
        try:
            await asyncio.wait([running, renewing], return_when=asyncio.FIRST_COMPLETED)
            for task in (running, renewing):
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
        except (LeaseLost, Conflict, LogUnavailable, Diverged) as error:
            self._ports.tally.gave_up(type(error).__name__)
            _log.warning("gave up partition %d: %s", number, error)
        except Exception:
            self._ports.tally.gave_up("Failed")
            _log.exception("partition %d failed; it is rebuilt from the log", number)
        finally:
            running.cancel()
            renewing.cancel()
            await asyncio.gather(running, renewing, return_exceptions=True)
            self._owned.pop(number, None)
            self._tasks.pop(number, None)
        try:
            await lease.release()
            await self._ports.connection.nc.publish(names.HANDOVER, b"")
        except Exception as error:
            _log.info("the lease of partition %d runs out by itself: %s", number, error)

    async def _renew(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(self._ttl / 4)
            await lease.keep()

    def _reconnected(self) -> None:
        for partition in self.owned:
            partition.recover()
        self._hint.set()
