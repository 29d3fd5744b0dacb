"""Both streams of some partitions, from where each was left, cut into batches.

A run's events are handed out only with the definitions that their writer had seen, in the same batch or before it, so
that what folds them can look up the job.

One stream, read ahead and decoded, up to a limit: while nobody takes, nothing more is read.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from msgspec import Struct, field

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import Delivery, last_message
from waterclock.core.jetstream.pull import Pull
from waterclock.projector.read.messages import JobsMessage, RunsMessage, jobs_message, runs_message
from waterclock.projector.read.positions import STREAMS, End, Positions
from waterclock.proto import names

_AHEAD = 40_000
"""Events decoded and not taken."""
_ON_THE_WAY = 256
"""Messages asked for and not decoded; each may be a frame of hundreds of events."""

Message = TypeVar("Message", JobsMessage, RunsMessage)


class Tap(Generic[Message]):
    def __init__(self, decode: Callable[[Delivery], Message], arrived: asyncio.Event) -> None:
        """`arrived` is set whenever there is more to take, and when reading has failed."""
        self._decode: Callable[[Delivery], Message] = decode
        self._arrived = arrived
        self._messages: deque[Message] = deque()
        self._taken = asyncio.Event()
        self._failure: BaseException | None = None
        self.events = 0
        """How many can be taken."""

    @asynccontextmanager
    async def reading(
        self, connection: Connection, stream: str, subjects: Sequence[str], after_sequence: int
    ) -> AsyncIterator[None]:
        source = Pull.ordered(connection, stream, subjects, after_sequence=after_sequence, batch=_ON_THE_WAY)
        async with source as pull:
            reader = asyncio.create_task(self._read(pull))
            try:
                yield
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    def first(self) -> Message | None:
        if self._failure is not None:
            raise self._failure
        return self._messages[0] if self._messages else None

    def take(self) -> Message:
        message = self._messages.popleft()
        self.events -= len(message.events)
        self._taken.set()
        return message

    async def _read(self, pull: Pull) -> None:
        try:
            while True:
                for delivery in await pull.next():
                    message = self._decode(delivery)
                    self._messages.append(message)
                    self.events += len(message.events)
                self._arrived.set()
                while self.events > _AHEAD:
                    self._taken.clear()
                    await self._taken.wait()
        except Exception as error:
            self._failure = error
            self._arrived.set()


_PATIENCE = 0.1
"""How long runs wait for a definition before it is checked that there is one to wait for."""


class Batch(Struct, frozen=True, kw_only=True):
    jobs: list[JobsMessage] = field(default_factory=list)
    runs: list[RunsMessage] = field(default_factory=list)
    events: int = 0

    def __bool__(self) -> bool:
        return bool(self.jobs or self.runs)

    @property
    def ends(self) -> list[End]:
        ends = []
        if self.jobs:
            ends.append(End(names.JOBS, self.jobs[-1].sequence, self.jobs[-1].stored_at))
        if self.runs:
            ends.append(End(names.RUNS, self.runs[-1].sequence, self.runs[-1].stored_at))
        return ends


class Feed:
    def __init__(self, connection: Connection, positions: Positions) -> None:
        self._connection = connection
        self._positions = positions
        self._arrived = asyncio.Event()
        self._jobs = Tap(jobs_message, self._arrived)
        self._runs = Tap(runs_message, self._arrived)
        self._jobs_through = 0
        """Every definition up to this sequence was handed out."""
        self._admitted: dict[int, int] = {}
        """The same for one partition, of which the log has none that was not handed out."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, connection: Connection, positions: Positions, streams: Sequence[str] = STREAMS
    ) -> AsyncIterator["Feed"]:
        feed = cls(connection, positions)
        jobs = [names.jobs_of_partition(partition) for partition in positions.partitions]
        runs = [names.runs_subject(partition) for partition in positions.partitions]
        async with AsyncExitStack() as scope:
            if not positions.partitions:
                streams = ()
            if names.JOBS in streams:
                start = positions.start(names.JOBS)
                await scope.enter_async_context(feed._jobs.reading(connection, names.JOBS, jobs, start))
            if names.RUNS in streams:
                start = positions.start(names.RUNS)
                await scope.enter_async_context(feed._runs.reading(connection, names.RUNS, runs, start))
            yield feed

    @property
    def waiting(self) -> int:
        """Events that have arrived and were not handed out."""
        return self._jobs.events + self._runs.events

    async def some(self, timeout: float) -> bool:
        """Wait until there is something to take; False when nothing comes in time."""
        while not self.is_ready:
            blocking = self._runs.first()
            if not await self._change(timeout if blocking is None else _PATIENCE):
                if blocking is None:
                    return False
                await self._check(blocking)
        return True

    async def filled(self, events: int, timeout: float) -> None:
        """Wait until this many events have arrived, or the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while self.waiting < events and (left := end - loop.time()) > 0:
            await self._change(left)

    def take(self, limit: int) -> Batch:
        """What there is, up to about `limit` events."""
        jobs: list[JobsMessage] = []
        runs: list[RunsMessage] = []
        count = 0
        while count < limit and self._jobs.first() is not None:
            job = self._jobs.take()
            self._jobs_through = max(self._jobs_through, job.sequence)
            if job.sequence > self._positions.of(names.JOBS, job.partition):
                jobs.append(job)
                count += len(job.events)
        while count < limit and (first := self._runs.first()) is not None and self._may_go(first):
            run = self._runs.take()
            if run.sequence > self._positions.of(names.RUNS, run.partition):
                runs.append(run)
                count += len(run.events)
        return Batch(jobs=jobs, runs=runs, events=count)

    @property
    def is_ready(self) -> bool:
        """Whether there is something to take."""
        if self._jobs.first() is not None:
            return True
        first = self._runs.first()
        return first is not None and self._may_go(first)

    async def _change(self, timeout: float) -> bool:
        self._arrived.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def _may_go(self, message: RunsMessage) -> bool:
        partition = message.partition
        return message.needs <= max(
            self._jobs_through, self._positions.of(names.JOBS, partition), self._admitted.get(partition, 0)
        )

    async def _check(self, message: RunsMessage) -> None:
        """What was needed may have left the log, or be of another partition: then there is nothing to wait for."""
        partition = message.partition
        through = max(self._jobs_through, self._positions.of(names.JOBS, partition))
        last = await last_message(self._connection, names.JOBS, names.jobs_of_partition(partition))
        if last is None or last.sequence <= through:
            self._admitted[partition] = message.needs
