"""Pulls work when there are free slots, from the source with the highest effective priority.

Each source (one consumer: route, tier, priority) is in one of three states:

- *quiet*: empty at the last pull. We listen to its subjects instead of pulling; a publication makes it active.
- *active, backlog unknown*: as much is pulled as there are free slots, and nothing from a lower one until that is
  answered. But if it was just found empty, or its work just published, one message is pulled, waiting a while for it;
  a few if there are many free slots for each.
- *active, with a backlog*: as much is pulled as there are free slots; what is left of them is for the next.

The sum of all that is requested never exceeds the free slots, so no message waits here that another executor could
run. A parcel counts as so many as came in the last ones; one of them is asked for also if fewer slots are free.
Publications are only hints: every source is pulled from now and then anyway, which also finds redeliveries.

Of priorities only those that are in use have a source: we ask which they are, and hear of new ones.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import accumulate

import msgspec

from waterclock.core.jetstream.access.work_consumers import ask_for_lines
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, NotAllowed
from waterclock.core.jetstream.messages import Delivery
from waterclock.core.jetstream.work_queue import Acks, WorkQueue
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import QUARANTINE
from waterclock.core.runtime.tasks import Tasks, supervised
from waterclock.executor.intake.priority import base_priority, effective_priority, in_pull_order
from waterclock.executor.intake.slots import Slots
from waterclock.executor.intake.sources import Source
from waterclock.executor.intake.stale_work import sweep_after_restarts
from waterclock.proto import names
from waterclock.proto.codec import decode_work
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

_PULL_ALL_SECONDS = 2.0
_PEEK_SECONDS = 0.5
_PEEK_PAUSE_SECONDS = 0.05
_LINES_SECONDS = 10.0
_WARM_WAIT_SECONDS = 0.25
_HINT_WAIT_SECONDS = 0.25
_MANY_FREE_SLOTS = 8
_MOST_AWAITED = 8
"""Messages in a pull that waits for them: each of them has many free slots."""
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
        exact: bool = True,
    ) -> None:
        """`sources`: one for each route and tier that is served; those of other priorities are found here. `exact`:
        whether we may take from lines of exactly one priority."""
        self._connection = connection
        self._sources = {source.consumer: source for source in sources}
        self._served = {(source.route, source.tier): source.tiers_below for source in sources}
        self._slots = slots
        self._dispatch = dispatch
        self._may_pull = may_pull
        self._exact = exact
        self._acks = Acks(connection)
        self._queue: WorkQueue | None = None
        self._tasks: Tasks | None = None
        self._planned = False
        self._stopped = False
        self._wants_consumers = False
        self._began = False
        """Whether anything is pulled yet."""
        self._pull_over = asyncio.Event()
        self._may_peek = True
        self._contended = asyncio.Event()
        """Several sources may hold something, and there is no free slot."""

    @asynccontextmanager
    async def pulling(self) -> AsyncIterator[None]:
        """Pull while the scope lasts, or until `stop`."""
        async with WorkQueue.open(
            self._connection, names.WORK, deliver=self._deliver, over=self._over
        ) as queue:
            self._queue = queue
            unregister = self._connection.on_reconnect(self._reconnected)
            end_hearing = await self._connection.nc.tap(names.LINES_MADE, self._lines_made)
            try:
                async with supervised() as tasks:
                    self._tasks = tasks
                    self._want_consumers()
                    timer = asyncio.get_running_loop().call_later(_CONSUMERS_SECONDS, self._begin)
                    tasks.keep(self._activate_all_now_and_then(), name="pull from every source")
                    tasks.keep(self._ask_for_lines_now_and_then(), name="ask for lines")
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
                end_hearing()
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
        if not self._began or self._stopped or self._queue is None or not self._may_pull():
            return
        active = [source for source in self._sources.values() if not source.quiet]
        if free <= 0:
            if len(active) > 1:
                self._contended.set()
            return
        now = now_us()
        if len(active) > 1:
            active = in_pull_order(active, now)
        highest_after = list(accumulate(map(base_priority, reversed(active)), max))[::-1]
        unanswered: float | None = None
        """The priority of a source that may hold more, so that lower ones have to wait."""
        for source, highest in zip(active, highest_after, strict=True):
            if unanswered is not None and effective_priority(source, now) < unanswered:
                return
            if source.requested:
                if source.is_decisive:
                    unanswered = effective_priority(source, now)
                continue
            # A source that goes first only by the age of its head is known to have one such run; the next may be young.
            most = free if base_priority(source) >= highest else 1
            free -= self._pull(source, most, free, alone=len(active) == 1)
            if free <= 0:
                return

    def _pull(self, source: Source, most: int, free: int, *, alone: bool) -> int:
        """How many slots are promised to it. `alone`: no other one may hold something."""
        assert self._queue is not None
        wait = 0.0
        if source.was_just_hinted and (alone or source.was_tried):
            wait = _HINT_WAIT_SECONDS
            source.hinted_at = None
        elif source.is_warm and free >= _MANY_FREE_SLOTS:
            wait = _WARM_WAIT_SECONDS
        batch = max(1, most // source.per_message)
        if source.pending:
            batch = min(batch, source.pending)
        elif wait:
            batch = max(1, min(batch // _MANY_FREE_SLOTS, _MOST_AWAITED))
        elif not source.expected:
            batch = 1
        source.is_decisive = source.expected and not wait
        source.requested, source.promised = batch, source.per_message
        self._slots.promised += batch * source.promised
        self._queue.ask(source.consumer, batch, wait=wait)
        return batch * source.promised

    def _deliver(self, consumer: str, delivery: Delivery) -> None:
        source = self._sources.get(consumer)
        if source is None:  # its consumer was missing a moment ago
            self._acks.nak(delivery)
            return
        source.pending = delivery.pending
        source.expected = True
        source.hinted_at = None
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
        source = self._sources.get(consumer)
        if source is None:
            return
        self._slots.promised -= source.requested * source.promised
        unanswered, source.requested = source.requested, 0
        self._pull_over.set()
        if missing and source.line != names.ALWAYS:
            self._forget(source)
        elif missing:
            self._want_consumers()
        if unanswered and source.was_just_hinted and not source.was_tried and not missing:
            source.was_tried = True  # it may not be stored yet: wait for it, beside others
        elif unanswered and not (brought and source.is_warm):
            source.is_empty()
            if source.end_listening is None and consumer in self._sources:
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
        if source.consumer not in self._sources:
            self._stop_listening(source)
            return
        source.quiet = False
        self.wake()

    def _published(self, source: Source, data: bytes) -> None:
        if source.end_listening is None:
            return
        self._stop_listening(source)
        source.quiet = False
        source.expected = True
        source.hinted_at, source.was_tried = time.monotonic(), False
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

    def _reconnected(self) -> None:
        for source in self._sources.values():
            source.expected = True
        self._want_consumers()
        self._activate_all()

    async def _ask_for_lines_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_LINES_SECONDS)
            self._want_consumers()

    def _lines_made(self, _subject: bytes, _reply: bytes, _header: bytes, data: bytes) -> None:
        """Of any route: some may be ours."""
        for name in data.decode(errors="replace").split():
            parts = names.parts_of_consumer(name)
            if parts is not None:
                self._add(*parts)

    def _add(self, route: str, tier: str, line: str) -> None:
        consumer = names.work_consumer(route, tier, line)
        if not self._exact and not line.isdigit():
            return
        if (route, tier) in self._served and consumer not in self._sources:
            self._sources[consumer] = Source(route, tier, line, self._served[route, tier])
            self.wake()

    def _forget(self, source: Source) -> None:
        """Its consumer is there no more: nothing has come through it for long. If something does we hear of it."""
        self._sources.pop(source.consumer, None)
        self._stop_listening(source)

    async def _watch_ages(self) -> None:
        """Where several sources compete for slots, find out how long the head of each has waited."""
        while True:
            await asyncio.sleep(_PEEK_PAUSE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PEEK_SECONDS):
                    await self._contended.wait()
            self._contended.clear()
            competing = [source for source in self._sources.values() if not source.quiet]
            if len(competing) > 1 and self._slots.free <= 0 and self._may_peek:
                for source in competing:
                    if source.oldest_due is None:
                        await self._peek(source)

    async def _peek(self, source: Source) -> None:
        assert self._queue is not None
        try:
            backlog = await self._queue.backlog(source.consumer, source.subject)
            if backlog.oldest is not None:
                source.head_is(decode_work(backlog.oldest)[0])
        except NotAllowed:
            self._may_peek = False  # with a token: it is as if all had just come
        except (LogError, msgspec.DecodeError):
            pass

    def _want_consumers(self) -> None:
        """Ask for them until they are there; until then there is nothing to pull from. Not awaited: who is told to stop
        meanwhile must not wait for a scheduler."""
        if not self._wants_consumers:
            self._wants_consumers = True
            self._in_background(self._ensure_consumers())

    async def _ensure_consumers(self) -> None:
        while not self._stopped:
            try:
                found = await asyncio.gather(
                    *(ask_for_lines(self._connection, route, tier) for route, tier in self._served)
                )
                break
            except LogError as error:
                _log.info("the work consumers are not there yet", extra={"error": str(error)})
                await asyncio.sleep(0.5)
        else:
            return
        self._wants_consumers = False
        for (route, tier), lines in zip(self._served, found, strict=True):
            for line in lines:
                self._add(route, tier, line)
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
