"""Reads both streams of some partitions, from where each was left, and cuts them into batches.

A run's events are handed out only with the definitions that their writer had seen, in the same batch or before it, so
that the fold can look up the job. Each stream is read ahead up to a limit: while nothing is taken, nothing is read.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from msgspec import Struct, field

from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import Delivery, last_message
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.runtime.tasks import supervised
from waterclock.projector.read.messages import JobsMessage, RunsMessage, jobs_message, runs_message
from waterclock.projector.read.positions import STREAMS, Positions, StreamEnd, subject_of
from waterclock.proto import names

_MOST_AHEAD = 40_000
"""Events decoded and not taken."""
_PLENTY = 5_000
"""When so many events are there, definitions whose runs have not arrived wait for them."""
_MEET = 2 * SECOND
"""How much later than a definition a run may have been stored and still come before it, if it does not need it."""
_PULL_BATCH = 256
"""Messages asked for and not decoded; each may be a frame of hundreds of events."""
LULL = 0.1
"""What has gathered waits for no more if nothing has arrived for so long."""
_WAIT_FOR_DEFINITION = 0.1
"""How long runs wait for a definition before it is checked that there is one to wait for."""

Message = TypeVar("Message", JobsMessage, RunsMessage)


class Batch(Struct, frozen=True, kw_only=True):
    jobs: list[JobsMessage] = field(default_factory=list)
    runs: list[RunsMessage] = field(default_factory=list)
    events: int = 0

    def __bool__(self) -> bool:
        return bool(self.jobs or self.runs)

    @property
    def ends(self) -> list[StreamEnd]:
        ends = []
        if self.jobs:
            ends.append(StreamEnd(names.JOBS, self.jobs[-1].sequence, self.jobs[-1].stored_at))
        if self.runs:
            ends.append(StreamEnd(names.RUNS, self.runs[-1].sequence, self.runs[-1].stored_at))
        return ends


class BatchReader:
    def __init__(self, connection: Connection, positions: Positions) -> None:
        self._connection = connection
        self._positions = positions
        self._arrived = asyncio.Event()
        self._gathered = asyncio.Event()
        self._most = 0
        self._arrivals = 0
        self._pulls: list[Pull] = []
        self.rests = False
        """Whether what comes in gathers in the log."""
        self._jobs = _ReadAhead(jobs_message, self._note_arrival)
        self._runs = _ReadAhead(runs_message, self._note_arrival)
        self._jobs_through = 0
        """Every definition up to this sequence was handed out."""
        self._admitted: dict[int, int] = {}
        """The same for one partition, of which the log has none that was not handed out."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, connection: Connection, positions: Positions, streams: Sequence[str] = STREAMS
    ) -> AsyncIterator["BatchReader"]:
        """Reads while the scope lasts. A stream that can no longer be read ends the scope with its error."""
        reader = cls(connection, positions)
        async with AsyncExitStack() as scope:
            pulls = []
            for stream in streams if positions.partitions else ():
                source = Pull.ordered(
                    connection,
                    stream,
                    [subject_of(stream, partition) for partition in positions.partitions],
                    after_sequence=positions.start(stream),
                    batch=_PULL_BATCH,
                )
                pulls.append((stream, await scope.enter_async_context(source)))
            tasks = await scope.enter_async_context(supervised())
            reader._pulls = [pull for _, pull in pulls]
            for stream, pull in pulls:
                ahead = reader._jobs if stream == names.JOBS else reader._runs
                tasks.keep(ahead.read(pull), name=f"reading {stream}")
            yield reader

    @property
    def waiting(self) -> int:
        """Events that have arrived and were not handed out."""
        return self._jobs.events + self._runs.events

    @property
    def is_ready(self) -> bool:
        """Whether there is something to take."""
        if self._jobs.first() is not None:
            return True
        first = self._runs.first()
        return first is not None and self._may_go(first)

    async def wait(self, timeout: float) -> bool:
        """Wait until there is something to take; False when nothing comes in time."""
        while not self.is_ready:
            blocking = self._runs.first()
            if not await self._wait_for_arrival(timeout if blocking is None else _WAIT_FOR_DEFINITION):
                if blocking is None:
                    return False
                await self._check_definition(blocking)
        return True

    async def gather(self, most: int, seconds: float) -> bool:
        """Wait until so many events have arrived, the time is over, none has arrived for a while, or somebody says
        `enough`: then False. What gathers while it rests does so in the log."""
        self._most = most
        self._gathered.clear()
        while self.waiting < most and seconds > 0:
            waited, arrived = seconds if self.rests else min(seconds, LULL), self._arrivals
            try:
                async with asyncio.timeout(waited):
                    await self._gathered.wait()
                return self.waiting >= most
            except TimeoutError:
                seconds -= waited
                if self._arrivals == arrived:
                    break
        return True

    def enough(self) -> None:
        self._gathered.set()

    def rest(self) -> None:
        """Little comes in: from now on it is read batch by batch, and not message by message."""
        if not self.rests:
            self.rests = True
            self._ask_for_first()

    def flow(self) -> None:
        """Rest no more."""
        if self.rests:
            self.rests = False
            for pull in self._pulls:
                pull.flow()

    async def fetch(self) -> None:
        """Read what has gathered in the log while it rests."""
        if self.rests:
            await asyncio.gather(*(pull.fetch() for pull in self._pulls))

    def take(self, limit: int, *, hurry: bool = False) -> Batch:
        """What there is, up to about `limit` events. Definitions come with the runs that need them, or else a little
        after those that were stored at the same time. In a flood of runs new ones that none needs yet wait for the
        next batch, unless there is a `hurry`: what begins and ends in one batch is written once."""
        jobs: list[JobsMessage] = []
        runs: list[RunsMessage] = []
        count = 0
        may_wait = not hurry and self.waiting >= _PLENTY
        while count < limit:
            job, run = self._jobs.first(), self._runs.first()
            is_old = job is not None and run is not None and job.stored_at + _MEET <= run.stored_at
            if run is not None and not is_old and self._may_go(run):
                self._runs.take()
                if run.sequence > self._positions.of(names.RUNS, run.partition):
                    runs.append(run)
                    count += len(run.events)
            elif job is None or (
                run is None and may_wait and runs and job.stored_at + _MEET > runs[-1].stored_at
            ):
                break
            else:
                self._jobs.take()
                self._jobs_through = max(self._jobs_through, job.sequence)
                if job.sequence > self._positions.of(names.JOBS, job.partition):
                    jobs.append(job)
                    count += len(job.events)
        if self.rests:
            self._ask_for_first()
        return Batch(jobs=jobs, runs=runs, events=count)

    def _ask_for_first(self) -> None:
        for pull in self._pulls:
            pull.rest()

    async def _wait_for_arrival(self, timeout: float) -> bool:
        self._arrived.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def _note_arrival(self) -> None:
        self._arrivals += 1
        self._arrived.set()
        if self.waiting >= self._most:
            self._gathered.set()

    def _may_go(self, message: RunsMessage) -> bool:
        partition = message.partition
        return message.needs <= max(
            self._jobs_through, self._positions.of(names.JOBS, partition), self._admitted.get(partition, 0)
        )

    async def _check_definition(self, message: RunsMessage) -> None:
        """What was needed may have left the log, or be of another partition: then there is nothing to wait for."""
        partition = message.partition
        through = max(self._jobs_through, self._positions.of(names.JOBS, partition))
        last = await last_message(self._connection, names.JOBS, names.jobs_of_partition(partition))
        if last is None or last.sequence <= through:
            self._admitted[partition] = message.needs


class _ReadAhead(Generic[Message]):
    """One stream, decoded."""

    def __init__(self, decode: Callable[[Delivery], Message], note_arrival: Callable[[], None]) -> None:
        """`note_arrival` is called whenever there is more to take."""
        self._decode: Callable[[Delivery], Message] = decode
        self._note_arrival = note_arrival
        self._messages: deque[Message] = deque()
        self._taken = asyncio.Event()
        self.events = 0
        """How many can be taken."""

    def first(self) -> Message | None:
        return self._messages[0] if self._messages else None

    def take(self) -> Message:
        message = self._messages.popleft()
        self.events -= len(message.events)
        self._taken.set()
        return message

    async def read(self, pull: Pull) -> None:
        while True:
            for delivery in await pull.next():
                message = self._decode(delivery)
                self._messages.append(message)
                self.events += len(message.events)
            self._note_arrival()
            while self.events > _MOST_AHEAD:
                self._taken.clear()
                await self._taken.wait()
