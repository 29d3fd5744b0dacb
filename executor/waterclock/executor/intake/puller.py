"""Pulls work when there are free slots, from the source with the highest effective priority.

Each source (one consumer: route, tier, band) is in one of three states:

- *quiet*: empty at the last pull. We listen to its subjects instead of pulling; a publication makes it active.
- *active, backlog unknown*: one message is pulled, waiting a while for it if many slots are free.
- *active, with a backlog*: as much is pulled as there are free slots.

The sum of all that is requested never exceeds the free slots, so no message waits here that another executor could
run. A parcel counts as so many as came in the last ones; one of them is asked for also if fewer slots are free.
Publications are only hints: every source is pulled from now and then anyway, which also finds redeliveries.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager

import msgspec

from waterclock.core.jetstream.access.work_consumers import ask_for_work_consumers
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.messages import Delivery
from waterclock.core.jetstream.work_queue import Acks, WorkQueue
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import QUARANTINE
from waterclock.core.runtime.tasks import Tasks, supervised
from waterclock.executor.intake.priority import base_priority, in_pull_order
from waterclock.executor.intake.slots import Slots
from waterclock.executor.intake.sources import Source
from waterclock.executor.intake.stale_work import sweep_after_restarts
from waterclock.proto import names
from waterclock.proto.codec import decode_work
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

_PULL_ALL_SECONDS = 2.0
_PEEK_SECONDS = 0.5
_WARM_WAIT_SECONDS = 0.25
_HINT_WAIT_SECONDS = 0.25
_MANY_FREE_SLOTS = 8
_UNREADABLE_SECONDS = 30.0
_CONSUMERS_SECONDS = 1.0
"""How long nothing is pulled at first, while the consumers are being made: else those that are there already would be
served first, whatever their priority. Then what there is is pulled, in case nobody makes any."""

Dispatch = Callable[[Sequence[WorkItem], Delivery], None]


class Puller:
    def __init__(
        self,
        connection: Connection,
        sources: list[Source],
        slots: Slots,
        *,
        dispatch: Dispatch,
        may_pull: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection = connection
        self._sources = {source.consumer: source for source in sources}
        self._slots = slots
        self._dispatch = dispatch
        self._may_pull = may_pull
        self._acks = Acks(connection)
        self._queue: WorkQueue | None = None
        self._tasks: Tasks | None = None
        self._planned = False
        self._stopped = False
        self._wants_consumers = False
        self._began = False
        """Whether anything is pulled yet."""
        self._pull_over = asyncio.Event()

    @asynccontextmanager
    async def pulling(self) -> AsyncIterator[None]:
        """Pull while the scope lasts, or until `stop`."""
        async with WorkQueue.open(
            self._connection, names.WORK, deliver=self._deliver, over=self._over
        ) as queue:
            self._queue = queue
            unregister = self._connection.on_reconnect(self._activate_all)
            try:
                async with supervised() as tasks:
                    self._tasks = tasks
                    self._want_consumers()
                    timer = asyncio.get_running_loop().call_later(_CONSUMERS_SECONDS, self._begin)
                    tasks.keep(self._activate_all_now_and_then(), name="pull from every source")
                    tasks.keep(self._watch_ages(), name="watch the age of waiting work")
                    tasks.keep(
                        sweep_after_restarts(self._connection, queue, self._sources.values()),
                        name="sweep finished work",
                    )
                    try:
                        yield
                    finally:
                        timer.cancel()
                        self._stopped = True
                        self._tasks = None
            finally:
                unregister()
                for source in self._sources.values():
                    self._stop_listening(source)

    async def stop(self) -> None:
        """Request nothing more, and wait until all that was requested has come or will not."""
        self._stopped = True
        while any(source.requested for source in self._sources.values()):
            self._pull_over.clear()
            await self._pull_over.wait()

    def wake(self) -> None:
        """There may be something to pull: look at the end of this turn of the loop."""
        if not self._planned and not self._stopped:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._plan)

    def _plan(self) -> None:
        self._planned = False
        free = self._slots.free
        if not self._began or self._stopped or free <= 0 or self._queue is None or not self._may_pull():
            return
        active = [source for source in self._sources.values() if not source.quiet and not source.requested]
        if len(active) > 1:
            active = in_pull_order(active, now_us())
        highest = max(map(base_priority, active), default=0)
        for source in active:
            # A source that goes first only by the age of its head is known to have one such run; the next may be young.
            most = free if base_priority(source) >= highest else 1
            batch = min(max(1, most // source.per_message), source.pending) or 1
            free -= self._pull(source, batch, free)
            if free <= 0:
                return

    def _pull(self, source: Source, batch: int, free: int) -> int:
        assert self._queue is not None
        wait = 0.0
        if source.hinted:
            wait = _HINT_WAIT_SECONDS
        elif source.is_warm and free >= _MANY_FREE_SLOTS:
            wait = _WARM_WAIT_SECONDS
        source.hinted = False
        source.requested, source.promised = batch, source.per_message
        self._slots.promised += batch * source.promised
        self._queue.ask(source.consumer, batch, wait=wait)
        return batch * source.promised

    def _deliver(self, consumer: str, delivery: Delivery) -> None:
        source = self._sources[consumer]
        source.pending = delivery.pending
        source.last_served = time.monotonic()
        if source.requested:
            source.requested -= 1
            self._slots.promised -= source.promised
        try:
            items = decode_work(delivery.data)
        except msgspec.DecodeError as error:
            QUARANTINE.report(names.WORK, delivery, error)
            self._acks.nak(delivery, _UNREADABLE_SECONDS)
            return
        source.brought(items)
        self._dispatch(items, delivery)

    def _over(self, consumer: str, brought: int, missing: bool) -> None:
        """A pull has ended. `missing`: its consumer does not exist."""
        source = self._sources[consumer]
        self._slots.promised -= source.requested * source.promised
        unanswered, source.requested = source.requested, 0
        self._pull_over.set()
        if missing:
            self._want_consumers()
        if unanswered:
            source.is_empty()
            if source.end_listening is None:
                self._in_background(self._listen(source))
            source.quiet = True
        self.wake()

    async def _listen(self, source: Source) -> None:
        """From now on its publications make it active; pull once more for what came before."""
        assert self._queue is not None
        try:
            if source.end_listening is None:
                source.end_listening = await self._queue.listen(
                    source.subject, lambda data: self._published(source, data)
                )
        except LogError:
            return  # the server is away; every source becomes active when it is back
        source.quiet = False
        self.wake()

    def _published(self, source: Source, data: bytes) -> None:
        if source.end_listening is None:
            return
        self._stop_listening(source)
        source.quiet = False
        source.hinted = True
        try:
            source.head_is(decode_work(data)[0])
        except msgspec.DecodeError:
            pass  # logged when it is delivered
        self.wake()

    def _stop_listening(self, source: Source) -> None:
        if source.end_listening is not None:
            end, source.end_listening = source.end_listening, None
            end()

    async def _activate_all_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_PULL_ALL_SECONDS)
            self._activate_all()

    def _activate_all(self) -> None:
        for source in self._sources.values():
            source.quiet = False
        self.wake()

    async def _watch_ages(self) -> None:
        """Where several sources compete for slots, find out how long the head of each has waited."""
        while True:
            await asyncio.sleep(_PEEK_SECONDS)
            competing = [source for source in self._sources.values() if not source.quiet]
            if len(competing) > 1 and self._slots.free <= 0:
                for source in competing:
                    if source.oldest_due is None:
                        await self._peek(source)

    async def _peek(self, source: Source) -> None:
        assert self._queue is not None
        try:
            backlog = await self._queue.backlog(source.consumer, source.subject)
            if backlog.oldest is not None:
                source.head_is(decode_work(backlog.oldest)[0])
        except (LogError, msgspec.DecodeError):
            pass

    def _want_consumers(self) -> None:
        """Ask for them until they are there; until then there is nothing to pull from. Not awaited: who is told to stop
        meanwhile must not wait for a scheduler."""
        if not self._wants_consumers:
            self._wants_consumers = True
            self._in_background(self._ensure_consumers())

    async def _ensure_consumers(self) -> None:
        routes = {(source.route, source.tier) for source in self._sources.values()}
        while not self._stopped:
            try:
                await ask_for_work_consumers(self._connection, routes)
                break
            except LogError as error:
                _log.info("the work consumers are not there yet", extra={"error": str(error)})
                await asyncio.sleep(0.5)
        self._wants_consumers = False
        self._began = True
        self._activate_all()

    def _begin(self) -> None:
        self._began = True
        self.wake()

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        if self._tasks is not None:
            self._tasks.spawn(work, name="puller")
        else:
            work.close()
