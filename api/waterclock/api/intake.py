"""Where accepted jobs enter the log. Jobs that arrive together travel together.

A job with an id of its user's choosing (or derived from its idempotency key) is created by compare-and-set on its
own subject, so that of two creations one wins. A job whose id we make needs no such guard: it goes alone if it
comes alone, and those that arrive while a write is in flight share the next one, a frame.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from waterclock.core.domain.ids import timed_id
from waterclock.core.domain.job import CreateJob, decide
from waterclock.core.jetstream.errors import Conflict, Duplicate, LogError
from waterclock.core.jetstream.publisher import Expect, Message, Publisher
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.events import SCHEMA_VERSION, Instant
from waterclock.proto.spec import JobSpec

_FRAME_JOBS = 256
_FRAME_BYTES = 512 * 1024
_BATCH_MESSAGES = 500
_BATCH_BYTES = 4 * 1024 * 1024
_KEPT_SECONDS = 30 * 86_400
"""How long a one-shot's definition stays in the log after its time; then the read models alone have it."""

_NEW = Expect(last_subject_sequence=0)
_encode = msgspec.json.Encoder().encode


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    spec: JobSpec
    job_id: str | None = None
    """None: any id will do."""
    actor: str = ""
    cause: str = ""


class Entered(Struct, frozen=True, kw_only=True, gc=False):
    job_id: str
    version: int


class _Letter(Struct, frozen=True, kw_only=True):
    """One message to `JOBS` and the ids it creates."""

    job_ids: list[str]
    data: bytes
    ttl: float | None


class _Envelope(Struct):
    """A `JobFrame` whose events are already encoded."""

    events: list[msgspec.Raw]
    v: int = SCHEMA_VERSION


class Intake:
    def __init__(self, publisher: Publisher, partitions: int, *, entered: Callable[[int, int], None]) -> None:
        """`entered` hears the partition and version of everything that was written."""
        self._publisher = publisher
        self._partitions = partitions
        self._entered = entered
        self._waiting: list[tuple[NewJob, asyncio.Future[Entered]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def create(self, job: NewJob) -> Entered:
        """Acknowledged by the log. Raises Conflict when the id is taken."""
        if job.job_id is not None:
            return await self._create_named(job)
        future: asyncio.Future[Entered] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_waiting())
        return await future

    async def create_many(self, jobs: Sequence[NewJob]) -> list[Entered | LogError]:
        """Results in order; one that fails does not fail the others."""
        results: list[Entered | LogError | None] = [None] * len(jobs)

        async def anonymous(places: list[int]) -> None:
            for place, result in zip(places, await self._frame([jobs[i] for i in places]), strict=True):
                results[place] = result

        async def named(places: list[int]) -> None:
            for place, result in zip(places, await self._batch([jobs[i] for i in places]), strict=True):
                results[place] = result

        unnamed = [i for i, job in enumerate(jobs) if job.job_id is None]
        first, repeats = _first_of_each([i for i, job in enumerate(jobs) if job.job_id is not None], jobs)
        async with asyncio.TaskGroup() as writes:
            for lasting in (True, False):
                kind = [i for i in unnamed if _lasts(jobs[i].spec) is lasting]
                for start in range(0, len(kind), _FRAME_JOBS):
                    writes.create_task(anonymous(kind[start : start + _FRAME_JOBS]))
            for start in range(0, len(first), _BATCH_MESSAGES):
                writes.create_task(named(first[start : start + _BATCH_MESSAGES]))
        for place in repeats:
            results[place] = await _or_error(self._create_named(jobs[place]))
        return [result for result in results if result is not None]

    async def _write_waiting(self) -> None:
        """One write at a time; what arrives meanwhile is the next write."""
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                await asyncio.gather(*(self._settle(group) for group in _groups(waiting)))
        finally:
            self._writing = None

    async def _settle(self, group: list[tuple[NewJob, asyncio.Future[Entered]]]) -> None:
        results = await self._frame([job for job, _ in group])
        for (_, future), result in zip(group, results, strict=True):
            if future.done():
                continue
            if isinstance(result, LogError):
                future.set_exception(result)
            else:
                future.set_result(result)

    async def _frame(self, jobs: list[NewJob]) -> list[Entered | LogError]:
        """Jobs with ids of our making, in as few messages as their size allows."""
        letters = list(_letters(jobs, now_us()))
        sent = await asyncio.gather(*(self._send(letter) for letter in letters))
        return [result for results in sent for result in results]

    async def _send(self, letter: _Letter) -> list[Entered | LogError]:
        root = letter.job_ids[0].partition("~")[0]
        partition = names.partition_of(root, self._partitions)
        try:
            version = await self._publisher.publish(
                names.job_subject(partition, root), letter.data, ttl_seconds=letter.ttl
            )
        except LogError as error:
            return [error] * len(letter.job_ids)
        self._entered(partition, version)
        return [Entered(job_id=job_id, version=version) for job_id in letter.job_ids]

    async def _batch(self, jobs: list[NewJob]) -> list[Entered | LogError]:
        """Jobs with distinct ids of their own: one atomic write, or one by one when that is refused."""
        now = now_us()
        messages = [self._message(job, now) for job in jobs]
        if len(jobs) > 1 and sum(len(message.data) for message in messages) < _BATCH_BYTES:
            try:
                last = await self._publisher.publish_batch(messages)
            except (Conflict, Duplicate):
                pass
            except LogError as error:
                return [error] * len(jobs)
            else:
                first = last - len(jobs) + 1
                return [self._now_in(job, first + i) for i, job in enumerate(jobs)]
        return list(await asyncio.gather(*(_or_error(self._create_named(job)) for job in jobs)))

    async def _create_named(self, job: NewJob) -> Entered:
        now = now_us()
        message = self._message(job, now)
        version = await self._publisher.publish(
            message.subject, message.data, expect=_NEW, ttl_seconds=_ttl([job.spec], now)
        )
        return self._now_in(job, version)

    def _now_in(self, job: NewJob, version: int) -> Entered:
        job_id = job.job_id or ""
        self._entered(names.partition_of(job_id, self._partitions), version)
        return Entered(job_id=job_id, version=version)

    def _message(self, job: NewJob, now: Instant) -> Message:
        job_id = job.job_id or ""
        ttl = _ttl([job.spec], now)
        return Message(
            subject=names.job_subject(names.partition_of(job_id, self._partitions), job_id),
            data=_encode(_Envelope(events=[_event(job, job_id, now)])),
            headers=None if ttl is None else {"Nats-TTL": f"{int(ttl)}s"},
            expect=_NEW,
        )


def _letters(jobs: list[NewJob], now: Instant) -> Iterator[_Letter]:
    """A lone job under an id of its own; several as `<frame>~<n>`."""
    root = timed_id(now, secrets.randbits(50))
    if len(jobs) == 1:
        event = _event(jobs[0], root, now)
        yield _Letter(job_ids=[root], data=_encode(_Envelope(events=[event])), ttl=_ttl([jobs[0].spec], now))
        return
    ids: list[str] = []
    events: list[msgspec.Raw] = []
    specs: list[JobSpec] = []
    size = 0
    for job in jobs:
        job_id = f"{root}~{len(ids)}"
        event = _event(job, job_id, now)
        ids.append(job_id)
        events.append(event)
        specs.append(job.spec)
        size += len(bytes(event))
        if size > _FRAME_BYTES:
            yield _Letter(job_ids=ids, data=_encode(_Envelope(events=events)), ttl=_ttl(specs, now))
            root, ids, events, specs, size = timed_id(now, secrets.randbits(50)), [], [], [], 0
    if ids:
        yield _Letter(job_ids=ids, data=_encode(_Envelope(events=events)), ttl=_ttl(specs, now))


def _event(job: NewJob, job_id: str, now: Instant) -> msgspec.Raw:
    created = decide(None, CreateJob(job_id=job_id, spec=job.spec, actor=job.actor, cause=job.cause), now)
    return msgspec.Raw(_encode(created[0]))


def _lasts(spec: JobSpec) -> bool:
    """Whether the definition must stay in the log: everything but a job that fires once at a known time."""
    return spec.schedule.schedule_type not in ("IMMEDIATE", "FUTURE")


def _ttl(specs: Iterable[JobSpec], now: Instant) -> float | None:
    """Seconds after which the log may forget these definitions; None: never."""
    longest = 0.0
    for spec in specs:
        if _lasts(spec):
            return None
        if spec.schedule.schedule_time is not None:
            longest = max(longest, spec.schedule.schedule_time.timestamp() - now / 1_000_000)
    return longest + _KEPT_SECONDS


def _groups(
    waiting: list[tuple[NewJob, asyncio.Future[Entered]]],
) -> Iterator[list[tuple[NewJob, asyncio.Future[Entered]]]]:
    for lasting in (True, False):
        kind = [entry for entry in waiting if _lasts(entry[0].spec) is lasting]
        for start in range(0, len(kind), _FRAME_JOBS):
            yield kind[start : start + _FRAME_JOBS]


def _first_of_each(places: list[int], jobs: Sequence[NewJob]) -> tuple[list[int], list[int]]:
    """Where each id comes first, and where it comes again: an atomic write checks against the state before it."""
    seen: set[str | None] = set()
    first: list[int] = []
    repeats: list[int] = []
    for place in places:
        (repeats if jobs[place].job_id in seen else first).append(place)
        seen.add(jobs[place].job_id)
    return first, repeats


async def _or_error(creation: Awaitable[Entered]) -> Entered | LogError:
    try:
        return await creation
    except LogError as error:
        return error
