"""The pull loop: messages of a stream, in order or from a durable consumer, through every kind of outage."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.jetstream.messages import Delivery, stream_state
from waterclock.core.jetstream.pull_requests import DurableConsumer, OrderedConsumer, PullRequests
from waterclock.core.runtime.jetstream_counters import TRAFFIC

__all__ = ["Delivery", "Pull"]

logger = logging.getLogger(__name__)

_PAUSE = 0.1
_RECOUNT = 0.5
_FETCH = 1.0
"""How long an answer is waited for. What comes later comes all the same."""


class Pull:
    """Keeps requests open with the server and gathers what arrives. One task calls `next`.

    Without a demand there are at most `batch` messages requested or arrived and not yet taken. With one, those
    taken and neither acked nor given back count as well. With `max_bytes` nothing is asked for while so many bytes have
    arrived and are not taken: what a slow reader does not take stays in the stream.

    A reader that does not need each message at once lets it `rest`: then one message is asked for, which shows that
    there is something, and what follows is delivered together when it is fetched.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        source: OrderedConsumer | DurableConsumer,
        batch: int,
        max_bytes: int | None = None,
    ) -> None:
        self.sequence = source.sequence
        """The last one taken."""
        self._connection = connection
        self._stream = stream
        self._source = source
        self._batch = batch
        self._max_bytes = max_bytes
        self._demand: int | None = None
        self._requests: PullRequests | None = None
        self._arrived: list[Delivery] = []
        self._arrived_bytes = 0
        self._held: set[int] = set()
        self._some = asyncio.Event()
        self._asking = False
        self._resting = False
        self._first_came = False
        """Something was delivered since it rests."""
        self._answered = asyncio.Event()
        """No request is open, or it is broken."""
        self._failure: BaseException | None = None

    @classmethod
    @asynccontextmanager
    async def ordered(
        cls,
        connection: Connection,
        stream: str,
        filter_subjects: Sequence[str],
        *,
        after_sequence: int,
        batch: int = 2000,
        max_bytes: int = 8 * 1024 * 1024,
    ) -> AsyncIterator["Pull"]:
        """Every message on these subjects after a sequence, each once and in order. A request asks for at most
        `max_bytes`, or one message."""
        source = OrderedConsumer(connection, stream, filter_subjects, after_sequence=after_sequence)
        async with cls(connection, stream, source, batch, max_bytes)._running() as pull:
            yield pull

    @classmethod
    @asynccontextmanager
    async def durable(
        cls,
        connection: Connection,
        stream: str,
        consumer: str,
        *,
        batch: int = 500,
        demand: int | None = None,
        restore: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator["Pull"]:
        """The work of a named consumer. `restore` makes the consumer again should somebody have deleted it."""
        pull = cls(connection, stream, DurableConsumer(connection, stream, consumer, restore), batch)
        pull._demand = demand
        async with pull._running():
            yield pull

    @property
    def pending(self) -> int:
        """How many messages are there to be taken, by the last message or answer of the server."""
        return self._source.pending + len(self._arrived)

    @property
    def unfinished(self) -> int:
        """How many have arrived and were neither acked nor given back."""
        return len(self._held)

    async def next(self, timeout: float | None = None) -> list[Delivery]:
        """Whatever has arrived, at least one message; an empty list at the timeout."""
        if timeout is None:
            await self._until_some()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._until_some()
        if self._failure is not None and not self._arrived:
            raise self._failure
        return self._take_all()

    async def _until_some(self) -> None:
        while not self._arrived and self._failure is None:
            self._some.clear()
            await self._some.wait()

    async def backlog(self) -> AsyncIterator[list[Delivery]]:
        """What is in the stream by now, batch by batch. What is removed unread is not waited for."""
        end = (await stream_state(self._connection, self._stream)).last_seq
        while self.pending and self.sequence < end:
            if arrived := await self.next(timeout=_RECOUNT):
                yield arrived
            else:
                await self._source.recount()

    async def through(self, last: int) -> AsyncIterator[Delivery]:
        """The same one by one, up to a sequence."""
        async for arrived in self.backlog():
            for delivery in arrived:
                if delivery.sequence > last:
                    return
                yield delivery

    def set_demand(self, demand: int) -> None:
        """Never more than this many requested, arrived or unfinished. Lowering it takes two seconds to have full
        effect, since a request cannot be taken back."""
        self._demand = demand
        self._ask_soon()

    def rest(self) -> None:
        """Ask for one message, and for nothing after it until this is called again. What was asked for before comes."""
        self._resting, self._first_came = True, False
        self._ask_soon()

    def flow(self) -> None:
        """Rest no more."""
        self._resting = False
        self._ask_soon()

    async def fetch(self) -> None:
        """While it rests: what is in the stream by now, up to a batch, arrives. Whoever waits in `next` takes it."""
        requests = self._requests
        if not self._first_came or requests is None or requests.outstanding:
            return  # nothing is there, or it comes by itself
        self._answered.clear()
        requests.request_what_is_there(self._batch)
        if requests.outstanding:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FETCH):
                    await self._answered.wait()
            await asyncio.sleep(0)

    async def drain(self) -> list[Delivery]:
        """Stop asking, wait until nothing more can arrive, and return what did."""
        self.set_demand(0)
        while self._failure is None and self._requests is not None and self._requests.outstanding > 0:
            self._some.clear()
            await self._some.wait()
        return self._take_all()

    def ack(self, delivery: Delivery) -> None:
        self._answer(delivery, b"+ACK", final=True)

    def nak(self, delivery: Delivery, delay: float | None = None) -> None:
        """Give it back, to be delivered again at once or after `delay` seconds."""
        body = b"-NAK" if delay is None else b'-NAK {"delay": %d}' % (delay * 1e9)
        self._answer(delivery, body, final=True)

    def progress(self, delivery: Delivery) -> None:
        """Start the ack deadline anew."""
        self._answer(delivery, b"+WPI", final=False)

    def _answer(self, delivery: Delivery, body: bytes, *, final: bool) -> None:
        self._connection.nc.send_soon(b"PUB %b %d\r\n%b\r\n" % (delivery.reply.encode(), len(body), body))
        if final:
            self._held.discard(delivery.sequence)
            self._ask_soon()

    @asynccontextmanager
    async def _running(self) -> AsyncIterator["Pull"]:
        await self._start()
        keeper = asyncio.create_task(self._keep())
        try:
            yield self
        finally:
            keeper.cancel()
            try:
                # Not `await keeper`: a cancellation of whoever closes us would pass for the keeper's, and get lost.
                await asyncio.gather(keeper, return_exceptions=True)
            finally:
                self._stop()
                self._source.discard()

    async def _keep(self) -> None:
        try:
            while True:
                if self._requests is not None:
                    reason = await self._requests.broken
                    logger.info("pull from %s begins anew: %s", self._stream, reason)
                    self._stop()
                await self._connection.connected()
                try:
                    await self._start()
                except LogUnavailable as error:
                    logger.info("pull from %s waits: %s", self._stream, error)
                    await asyncio.sleep(_PAUSE)
        except Exception as error:
            self._failure = error
            self._some.set()

    async def _start(self) -> None:
        consumer = await self._source.consumer()
        requests = PullRequests(
            self._connection,
            self._stream,
            consumer,
            expires=self._source.expires,
            max_bytes=self._max_bytes,
            deliver=self._receive,
            room=self._has_room,
        )
        await requests.open()
        self._requests = requests
        self._ask_soon()

    def _stop(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
            self._some.set()
            self._answered.set()

    def _take_all(self) -> list[Delivery]:
        arrived, self._arrived, self._arrived_bytes = self._arrived, [], 0
        if arrived:
            self.sequence = arrived[-1].sequence
            TRAFFIC.pulled[self._stream] += len(arrived)
        self._ask_soon()
        return arrived

    def _receive(self, delivery: Delivery) -> None:
        trouble = self._source.accept(delivery)
        if trouble is not None:
            if self._requests is not None:
                self._requests.break_off(trouble)
            return
        if self._source.needs_ack:
            self._held.add(delivery.sequence)
        self._arrived.append(delivery)
        self._arrived_bytes += len(delivery.data)
        self._first_came = True
        self._some.set()
        if self._requests is not None and not self._requests.outstanding:
            self._answered.set()

    def _has_room(self) -> None:
        """A request is over before it got all it asked for."""
        self._answered.set()
        self._ask_soon()

    def _ask_soon(self) -> None:
        if not self._asking and not self._has_asked_enough:
            self._asking = True
            asyncio.get_running_loop().call_soon(self._ask)

    @property
    def _has_asked_enough(self) -> bool:
        """Whether more than half of what may be outstanding is: then nothing is asked for."""
        requests = self._requests
        return (
            requests is not None
            and self._demand is None
            and not self._resting
            and 2 * requests.outstanding > self._batch
        )

    def _ask(self) -> None:
        """Ask for more when half of what may be outstanding is free: few requests, and the pipe never runs dry."""
        self._asking = False
        requests = self._requests
        if requests is None or (self._max_bytes is not None and self._arrived_bytes >= self._max_bytes):
            return
        if self._resting:
            if not self._first_came and not requests.outstanding:
                requests.request(1)
            return
        limit = self._batch if self._demand is None else self._demand
        used = len(self._arrived) if self._demand is None else len(self._held)
        free = limit - used - requests.outstanding
        if free > 0 and (requests.outstanding == 0 or free * 2 >= limit):
            requests.request(min(free, self._batch))
        if limit == 0:
            self._some.set()
