"""Takes work when there is room, from the source that deserves it most.

Each source (one consumer: route, tier, band) is in one of three states:

- *quiet*: empty when last asked. We listen to its subjects instead of asking; a hint makes it lively.
- *lively, backlog unknown*: asked for one message, waiting a while for it if slots are plenty.
- *lively, with a backlog*: asked for as much as there is room for.

The sum of all that is asked for never exceeds the free slots, so no message waits here that another executor
could run. Hints are only hints: every source is asked now and then anyway, which also finds redeliveries.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager

import msgspec

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.messages import Delivery
from waterclock.core.jetstream.streams import ensure_work_consumers
from waterclock.core.jetstream.work_queue import Acks, WorkQueue
from waterclock.core.runtime.clock import now_us
from waterclock.executor.intake.priority import choose, young_priority
from waterclock.executor.intake.sources import Slots, Source
from waterclock.executor.intake.stale_work import sweep_after_restarts
from waterclock.proto import names
from waterclock.proto.codec import decode_work
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_PEEK_SECONDS = 0.5
_PROBE_SECONDS = 0.25
_HINT_SECONDS = 0.25
_PLENTY = 8
_UNREADABLE_SECONDS = 30.0

Take = Callable[[WorkItem, Delivery], None]


def sources_of(routes: Iterable[str], tier: str) -> list[Source]:
    """A route's work of this tier and of every lower one, never of a higher."""
    own = names.TIERS.index(tier)
    return [
        Source(route, lower, band, own - index)
        for route in routes
        for index, lower in enumerate(names.TIERS[: own + 1])
        for band in range(len(names.BANDS))
    ]


class Puller:
    def __init__(
        self,
        connection: Connection,
        sources: list[Source],
        slots: Slots,
        *,
        take: Take,
        may_take: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection = connection
        self._sources = {source.consumer: source for source in sources}
        self._slots = slots
        self._take = take
        self._may_take = may_take
        self._acks = Acks(connection)
        self._queue: WorkQueue | None = None
        self._planned = False
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_over = asyncio.Event()

    @asynccontextmanager
    async def pulling(self) -> AsyncIterator[WorkQueue]:
        """Take work while the scope lasts, or until `stop`."""
        await self._ensure_consumers()
        async with WorkQueue.open(
            self._connection, names.WORK, deliver=self._deliver, over=self._over
        ) as queue:
            self._queue = queue
            forget = self._connection.on_reconnect(self._look)
            self._in_background(self._look_now_and_then())
            self._in_background(self._watch_ages())
            self._in_background(sweep_after_restarts(self._connection, queue, self._sources.values()))
            self.wake()
            try:
                yield queue
            finally:
                self._stopped = True
                forget()
                tasks = list(self._tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for source in self._sources.values():
                    self._stop_listening(source)

    async def stop(self) -> None:
        """Ask for nothing more, and wait until all that was asked for has come or will not."""
        self._stopped = True
        while any(source.asked for source in self._sources.values()):
            self._all_over.clear()
            await self._all_over.wait()

    def wake(self) -> None:
        """There may be something to ask for: look at the end of this turn of the loop."""
        if not self._planned and not self._stopped:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._plan)

    def _plan(self) -> None:
        self._planned = False
        free = self._slots.free
        if self._stopped or free <= 0 or self._queue is None or not self._may_take():
            return
        lively = [source for source in self._sources.values() if not source.quiet and not source.asked]
        if len(lively) > 1:
            lively = choose(lively, now_us())
        highest = max(map(young_priority, lively), default=0)
        for source in lively:
            # What goes first only by its age is known to be one run; those behind it may be young.
            most = free if young_priority(source) >= highest else 1
            free -= self._ask(source, min(most, source.pending) or 1, free)
            if free <= 0:
                return

    def _ask(self, source: Source, batch: int, free: int) -> int:
        assert self._queue is not None
        wait = 0.0
        if source.hinted:
            wait = _HINT_SECONDS
        elif source.is_warm and free >= _PLENTY:
            wait = _PROBE_SECONDS
        source.hinted = False
        source.asked = batch
        self._slots.promised += batch
        self._queue.ask(source.consumer, batch, wait=wait)
        return batch

    def _deliver(self, consumer: str, delivery: Delivery) -> None:
        source = self._sources[consumer]
        source.pending = delivery.pending
        source.last_served = time.monotonic()
        if source.asked:
            source.asked -= 1
            self._slots.promised -= 1
        try:
            item = decode_work(delivery.data)
        except msgspec.DecodeError as error:
            _log.error("unreadable work", extra={"subject": delivery.subject, "error": str(error)})
            self._acks.nak(delivery, _UNREADABLE_SECONDS)
            return
        source.served(item)
        self._take(item, delivery)

    def _over(self, consumer: str, brought: int, missing: bool) -> None:
        source = self._sources[consumer]
        self._slots.promised -= source.asked
        unanswered, source.asked = source.asked, 0
        self._all_over.set()
        if missing:
            self._in_background(self._ensure_consumers())
        if unanswered:
            source.is_empty()
            if source.end_listening is None:
                self._in_background(self._listen(source))
            source.quiet = True
        self.wake()

    async def _listen(self, source: Source) -> None:
        """From now on its publications are heard; ask once more for what came before."""
        assert self._queue is not None
        try:
            if source.end_listening is None:
                source.end_listening = await self._queue.listen(
                    source.subject, lambda data: self._hint(source, data)
                )
        except LogError:
            return  # the server is away; we look at everything when it is back
        source.quiet = False
        self.wake()

    def _hint(self, source: Source, data: bytes) -> None:
        if source.end_listening is None:
            return
        self._stop_listening(source)
        source.quiet = False
        source.hinted = True
        try:
            source.saw(decode_work(data))
        except msgspec.DecodeError:
            pass  # said when it is delivered
        self.wake()

    def _stop_listening(self, source: Source) -> None:
        if source.end_listening is not None:
            end, source.end_listening = source.end_listening, None
            end()

    async def _look_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        for source in self._sources.values():
            source.quiet = False
        self.wake()

    async def _watch_ages(self) -> None:
        """Where several sources want the same slots, know how long the first of each has waited."""
        while True:
            await asyncio.sleep(_PEEK_SECONDS)
            wanting = [source for source in self._sources.values() if not source.quiet]
            if len(wanting) > 1 and self._slots.free <= 0:
                for source in wanting:
                    if source.oldest_due is None:
                        await self._peek(source)

    async def _peek(self, source: Source) -> None:
        assert self._queue is not None
        try:
            backlog = await self._queue.backlog(source.consumer, source.subject)
            if backlog.oldest is not None:
                source.saw(decode_work(backlog.oldest))
        except (LogError, msgspec.DecodeError):
            pass

    async def _ensure_consumers(self) -> None:
        routes = {(source.route, source.tier) for source in self._sources.values()}
        while True:
            try:
                await ensure_work_consumers(self._connection, routes)
                return
            except LogError as error:
                _log.warning("cannot make the work consumers", extra={"error": str(error)})
                await asyncio.sleep(0.5)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
