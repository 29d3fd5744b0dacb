"""Where accepted jobs enter the log. Jobs that arrive together travel together.

A job with an id of its user's choosing (or derived from its idempotency key) is created by compare-and-set on its
own subject, so that of two creations one wins. A job whose id we make needs no such guard. Either goes at once if few
writes are in flight, and else waits for one of them to end: those that wait together go as one write, as frames of the
one kind and atomic batches of the other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from waterclock.api.commands import job_messages
from waterclock.api.commands.job_messages import FRAME_JOBS, Letter, NewJob
from waterclock.api.metrics import ACCEPTED
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, Duplicate, LogError
from waterclock.core.jetstream.messages import last_message
from waterclock.core.jetstream.publisher import Expect, Message, Publisher
from waterclock.proto import names

T = TypeVar("T")

_WRITERS = 4
_BATCH_MESSAGES = 500
_BATCH_BYTES = 4 * 1024 * 1024
_NEW = Expect(last_subject_sequence=0)


class Entered(Struct, frozen=True, kw_only=True, gc=False):
    job_id: str
    version: int


Result = Entered | LogError
_Waiting = tuple[NewJob, "asyncio.Future[Entered]"]


class Intake:
    def __init__(
        self,
        connection: Connection,
        publisher: Publisher,
        partitions: int,
        *,
        entered: Callable[[int, int], None],
    ) -> None:
        """`entered` hears the partition and version of everything that was written."""
        self._connection = connection
        self._publisher = publisher
        self._partitions = partitions
        self._entered = entered
        self._waiting: list[_Waiting] = []
        self._writers: set[asyncio.Task[None]] = set()

    async def create(self, job: NewJob) -> Entered:
        """Acknowledged by the log. Raises Conflict when the id is taken."""
        future: asyncio.Future[Entered] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if len(self._writers) < _WRITERS:
            writer = asyncio.create_task(self._write_waiting())
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        return await future

    async def create_many(self, jobs: Sequence[NewJob], key: str | None = None) -> list[Result]:
        """Results in order; one that fails does not fail the others.

        With a key the same jobs, sent again, get the same ids, and are not written twice.
        """
        results: dict[int, Result] = {}

        async def write(
            places: list[int], how: Callable[[list[NewJob], str | None], Awaitable[list[Result]]]
        ) -> None:
            own = None if key is None else f"{key}/{places[0]}"
            results.update(zip(places, await how([jobs[place] for place in places], own), strict=True))

        unnamed = [place for place, job in enumerate(jobs) if job.job_id is None]
        first, repeated = _first_of_each(
            [place for place, job in enumerate(jobs) if job.job_id is not None], jobs
        )
        async with asyncio.TaskGroup() as writes:
            for lasting in (True, False):
                alike = [place for place in unnamed if job_messages.lasts(jobs[place].spec) is lasting]
                for places in _cut(alike, FRAME_JOBS):
                    writes.create_task(write(places, self._frames))
            for places in _cut(first, _BATCH_MESSAGES):
                writes.create_task(write(places, self._batch))
        for place in repeated:
            results[place] = await _or_error(self._create_named(jobs[place]))
        return [results[place] for place in range(len(jobs))]

    async def _write_waiting(self) -> None:
        """Write what waits, and what has come to wait meanwhile."""
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                results = await self.create_many([job for job, _ in waiting])
            except BaseException as error:
                for _, future in waiting:
                    future.cancel() if isinstance(error, asyncio.CancelledError) else _fail(future, error)
                raise
            for (_, future), result in zip(waiting, results, strict=True):
                if isinstance(result, LogError):
                    _fail(future, result)
                elif not future.done():
                    future.set_result(result)

    async def _frames(self, jobs: list[NewJob], key: str | None) -> list[Result]:
        sent = await asyncio.gather(*(self._send(letter) for letter in job_messages.frames(jobs, key)))
        return [result for results in sent for result in results]

    async def _send(self, letter: Letter) -> list[Result]:
        """A letter whose id nobody else can have: a conflict means that it was sent before."""
        subject = self._subject(letter.root)
        try:
            version = await self._publisher.publish(subject, letter.data, ttl_seconds=letter.ttl, expect=_NEW)
        except Conflict as conflict:
            stored = await last_message(self._connection, names.JOBS, subject)
            if stored is None or not letter.holds(stored.data):
                return [conflict] * len(letter.job_ids)
            version = stored.sequence
        except LogError as error:
            return [error] * len(letter.job_ids)
        self._entered(self._partition(letter.root), version)
        ACCEPTED.inc(len(letter.job_ids))
        return [Entered(job_id=job_id, version=version) for job_id in letter.job_ids]

    async def _batch(self, jobs: list[NewJob], _: str | None) -> list[Result]:
        """Jobs with distinct ids of their own: one atomic write, or one by one when that is refused."""
        packed = [job_messages.named(job) for job in jobs]
        if len(jobs) > 1 and sum(len(letter.data) for letter in packed) < _BATCH_BYTES:
            try:
                last = await self._publisher.publish_batch([self._message(letter) for letter in packed])
            except (Conflict, Duplicate):
                pass
            except LogError as error:
                return [error] * len(jobs)
            else:
                first = last - len(jobs) + 1
                return [self._now_in(letter, first + place) for place, letter in enumerate(packed)]
        return list(await asyncio.gather(*(_or_error(self._create_named(job)) for job in jobs)))

    async def _create_named(self, job: NewJob) -> Entered:
        letter = job_messages.named(job)
        version = await self._publisher.publish(
            self._subject(letter.root), letter.data, expect=_NEW, ttl_seconds=letter.ttl
        )
        return self._now_in(letter, version)

    def _now_in(self, letter: Letter, version: int) -> Entered:
        self._entered(self._partition(letter.root), version)
        ACCEPTED.inc()
        return Entered(job_id=letter.root, version=version)

    def _message(self, letter: Letter) -> Message:
        headers = None if letter.ttl is None else {"Nats-TTL": f"{int(letter.ttl)}s"}
        return Message(subject=self._subject(letter.root), data=letter.data, headers=headers, expect=_NEW)

    def _subject(self, root: str) -> str:
        return names.job_subject(self._partition(root), root)

    def _partition(self, root: str) -> int:
        return names.partition_of(root, self._partitions)


def _fail(future: "asyncio.Future[Entered]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _cut(items: list[T], size: int) -> list[list[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _first_of_each(places: list[int], jobs: Sequence[NewJob]) -> tuple[list[int], list[int]]:
    """Where each id comes first, and where it comes again: an atomic write checks against the state before it."""
    seen: set[str | None] = set()
    first: list[int] = []
    repeated: list[int] = []
    for place in places:
        (repeated if jobs[place].job_id in seen else first).append(place)
        seen.add(jobs[place].job_id)
    return first, repeated


async def _or_error(creation: Awaitable[Entered]) -> Result:
    try:
        return await creation
    except LogError as error:
        return error
