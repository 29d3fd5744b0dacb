"""Writes accepted jobs to the log. Jobs that arrive together travel together.

A job with an id of its user's choosing (or derived from its idempotency key) is created by compare-and-set on its
own subject, so that of two creations one wins. A job whose id we make needs no such guard. Either goes at once if no
write is in flight, and else waits for it to end: those that wait together go as one write, as frames of the one kind
and atomic batches of the other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct

from waterclock.api.eventlog import job_frames
from waterclock.api.eventlog.job_frames import FRAME_JOBS, Creation, JobMessage
from waterclock.api.metrics import ACCEPTED
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, Duplicate, LogError, LogUnavailable
from waterclock.core.jetstream.messages import last_message
from waterclock.core.jetstream.publisher import Expect, Message, Publisher
from waterclock.core.runtime.tasks import Tasks, supervised
from waterclock.proto import names

T = TypeVar("T")

_FEW = 6
"""So many go each by itself: an atomic batch costs the server 2 ms whatever is in it, five times as much as a message.
"""
_MOMENT = 0.001
_MOMENTS = 3
_BATCH_MESSAGES = 500
_BATCH_BYTES = 4 * 1024 * 1024
_NEW = Expect(last_subject_sequence=0)


class Created(Struct, frozen=True, kw_only=True, gc=False):
    """A job that the log has acknowledged."""

    job_id: str
    version: int


Result = Created | LogError
_Waiting = tuple[Creation, "asyncio.Future[Created]"]


class JobWriter:
    def __init__(
        self,
        connection: Connection,
        publisher: Publisher,
        partitions: int,
        *,
        written: Callable[[int, int], None],
        tasks: Tasks,
    ) -> None:
        """Made by `open`."""
        self._connection = connection
        self._publisher = publisher
        self._partitions = partitions
        self._written = written
        self._tasks = tasks
        self._waiting: list[_Waiting] = []
        self._is_writing = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        connection: Connection,
        publisher: Publisher,
        partitions: int,
        *,
        written: Callable[[int, int], None],
    ) -> AsyncIterator["JobWriter"]:
        """`written` is told the partition and version of everything that was written."""
        async with supervised() as tasks:
            yield cls(connection, publisher, partitions, written=written, tasks=tasks)

    async def create(self, job: Creation) -> Created:
        """Acknowledged by the log. Raises Conflict when the id is taken."""
        future: asyncio.Future[Created] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if not self._is_writing:
            self._is_writing = True
            self._tasks.spawn(self._write_waiting(), name="job writer")
        return await future

    async def create_many(self, jobs: Sequence[Creation], key: str | None = None) -> list[Result]:
        """Results in order; one that fails does not fail the others.

        With a key the same jobs, sent again, get the same ids, and are not written twice.
        """
        results: list[Result | None] = [None] * len(jobs)

        async def write(
            places: list[int], how: Callable[[list[Creation], str | None], Awaitable[list[Result]]]
        ) -> None:
            own = None if key is None else f"{key}/{places[0]}"
            written = await how([jobs[place] for place in places], own)
            for place, result in zip(places, written, strict=True):
                results[place] = result

        lasting: list[int] = []
        passing: list[int] = []
        named: list[int] = []
        for place, job in enumerate(jobs):
            if job.job_id is not None:
                named.append(place)
            else:
                (lasting if job_frames.is_lasting(job.schedule) else passing).append(place)
        first, repeated = _first_of_each(named, jobs)
        async with asyncio.TaskGroup() as writes:
            for alike in (lasting, passing):
                for places in _cut(alike, FRAME_JOBS):
                    writes.create_task(write(places, self._frames))
            for places in _cut(first, _BATCH_MESSAGES):
                writes.create_task(write(places, self._batch))
        for place in repeated:
            results[place] = await _or_error(self._create_named(job_frames.single(jobs[place])))
        return [result for result in results if result is not None]

    async def _write_waiting(self) -> None:
        """Write what waits, and what has come to wait meanwhile. Callers who were answered together ask again together,
        but for a moment: the first of them does not go alone."""
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                await self._write_for(waiting)
                for _ in range(_MOMENTS):
                    if len(self._waiting) < len(waiting) // 2:
                        await asyncio.sleep(_MOMENT)
        finally:
            self._is_writing = False

    async def _write_for(self, waiting: list[_Waiting]) -> None:
        """Whatever goes wrong is told to those who wait: it is a failure of their requests, not of the api."""
        try:
            results = await self.create_many([job for job, _ in waiting])
        except asyncio.CancelledError:
            for _, future in waiting:
                future.cancel()
            raise
        except Exception as error:
            for _, future in waiting:
                _fail(future, error)
            return
        for (_, future), result in zip(waiting, results, strict=True):
            if isinstance(result, LogError):
                _fail(future, result)
            elif not future.done():
                future.set_result(result)

    async def _frames(self, jobs: list[Creation], key: str | None) -> list[Result]:
        sent = await asyncio.gather(*(self._send(message) for message in job_frames.frames(jobs, key)))
        return [result for results in sent for result in results]

    async def _send(self, message: JobMessage) -> list[Result]:
        """A message whose id nobody else can have: a conflict means that it was sent before."""
        try:
            version = await self._write_once(message)
        except LogError as error:
            return [error] * len(message.job_ids)
        self._written(self._partition(message.root), version)
        ACCEPTED.inc(len(message.job_ids))
        return [Created(job_id=job_id, version=version) for job_id in message.job_ids]

    async def _write_once(self, message: JobMessage) -> int:
        subject = self._subject(message.root)
        for may_be_stored in (False, True):
            try:
                return await self._publisher.publish(
                    subject, message.data, ttl_seconds=message.ttl, expect=_NEW, may_be_stored=may_be_stored
                )
            except Conflict:
                stored = await last_message(self._connection, names.JOBS, subject)
                if stored is None:
                    continue  # the same is on its way into the log
                if not message.creates_same(stored.data):
                    raise
                return stored.sequence
        raise LogUnavailable("it is being written already")

    async def _batch(self, jobs: list[Creation], _: str | None) -> list[Result]:
        """Jobs with distinct ids of their own: one atomic write, or one by one when that is refused."""
        packed = [job_frames.single(job) for job in jobs]
        if len(jobs) > _FEW and sum(len(message.data) for message in packed) < _BATCH_BYTES:
            try:
                last = await self._publisher.publish_batch([self._to_publish(message) for message in packed])
            except (Conflict, Duplicate):
                pass
            except LogError as error:
                return [error] * len(jobs)
            else:
                first = last - len(jobs) + 1
                return [self._created(message, first + place) for place, message in enumerate(packed)]
        return list(await asyncio.gather(*(_or_error(self._create_named(message)) for message in packed)))

    async def _create_named(self, message: JobMessage) -> Created:
        version = await self._publisher.publish(
            self._subject(message.root), message.data, expect=_NEW, ttl_seconds=message.ttl
        )
        return self._created(message, version)

    def _created(self, message: JobMessage, version: int) -> Created:
        self._written(self._partition(message.root), version)
        ACCEPTED.inc()
        return Created(job_id=message.root, version=version)

    def _to_publish(self, message: JobMessage) -> Message:
        headers = None if message.ttl is None else {"Nats-TTL": f"{int(message.ttl)}s"}
        return Message(subject=self._subject(message.root), data=message.data, headers=headers, expect=_NEW)

    def _subject(self, root: str) -> str:
        return names.job_subject(self._partition(root), root)

    def _partition(self, root: str) -> int:
        return names.partition_of(root, self._partitions)


def _fail(future: "asyncio.Future[Created]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _cut(items: list[T], size: int) -> list[list[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _first_of_each(places: list[int], jobs: Sequence[Creation]) -> tuple[list[int], list[int]]:
    """Where each id comes first, and where it comes again: an atomic write checks against the state before it."""
    seen: set[str | None] = set()
    first: list[int] = []
    repeated: list[int] = []
    for place in places:
        (repeated if jobs[place].job_id in seen else first).append(place)
        seen.add(jobs[place].job_id)
    return first, repeated


async def _or_error(creation: Awaitable[Created]) -> Result:
    try:
        return await creation
    except LogError as error:
        return error
