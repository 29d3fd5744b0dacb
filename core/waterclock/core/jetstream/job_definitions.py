"""Definitions as they stand in `JOBS`: read from the leader, changed by compare-and-set."""

import re
from asyncio import gather
from collections.abc import Callable, Iterable
from itertools import starmap

from msgspec import Struct

from waterclock.core.domain.job.aggregate import Job, JobCommand, decide, evolve
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.messages import Stored, last_message, message_at, next_message
from waterclock.core.jetstream.publisher import Expect, Publisher
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import read_job_frame
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Instant, JobEvent, JobFrame
from waterclock.proto.spec import JobSpec

_ATTEMPTS = 100
"""In each round somebody wins: so many changes of one job, meant for whatever there is, all get their turn."""
_AT_A_TIME = 32
_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_~=-]{0,255}$")
"""What may stand in a subject: ids users choose and ids we make."""


class Definition(Struct, frozen=True, kw_only=True):
    job: Job
    version: int
    own_sequence: int
    """The last sequence of the job's own subject: 0 while it only stands in the frame it was created in."""
    cause: str = ""


class Definitions:
    def __init__(
        self,
        connection: Connection,
        publisher: Publisher,
        partitions: int,
        now: Callable[[], Instant] = now_us,
    ) -> None:
        self._connection = connection
        self._publisher = publisher
        self._partitions = partitions
        self._now = now

    def partition_of(self, job_id: str) -> int:
        return names.partition_of(job_id, self._partitions)

    async def read(self, job_id: str) -> Definition | None:
        if not _ID.match(job_id):
            return None
        if stored := await self._last(job_id):
            return _definition(stored, job_id, stored.sequence)
        frame, tilde, _ = job_id.partition("~")
        if tilde and (stored := await self._last(frame)):
            return _definition(stored, job_id, 0)
        return None

    async def first(self, job_id: str) -> Definition | None:
        """The definition a job was created with, if the log still has it."""
        stored = await next_message(self._connection, names.JOBS, self.subject(job_id), 0)
        return None if stored is None else _definition(stored, job_id, stored.sequence)

    async def at(self, job_id: str, version: int) -> Definition | None:
        """The definition a job had at a version, if the log still has it."""
        stored = await message_at(self._connection, names.JOBS, version) if version else None
        return None if stored is None else _definition(stored, job_id, stored.sequence)

    async def specs_at(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], JobSpec | None]:
        """Many definitions (job, version) at once: a message that holds several of them is read once."""
        by_version: dict[int, list[str]] = {}
        for job_id, version in wanted:
            by_version.setdefault(version, []).append(job_id)
        found: dict[tuple[str, int], JobSpec | None] = {}
        for version, job_ids in by_version.items():
            stored = await message_at(self._connection, names.JOBS, version) if version else None
            events = () if stored is None else read_job_frame(stored).events
            specs = {event.job_id: event.spec for event in events}
            found |= {(job_id, version): specs.get(job_id) for job_id in job_ids}
        return found

    async def before(
        self, changed: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[JobEvent, int] | None]:
        """The definitions that some (job, version) have replaced, and their versions, if the log still has them."""
        found: dict[tuple[str, int], tuple[JobEvent, int] | None] = {}
        items = list(changed)
        for start in range(0, len(items), _AT_A_TIME):
            chunk = items[start : start + _AT_A_TIME]
            found.update(zip(chunk, await gather(*starmap(self._before, chunk)), strict=True))
        by_frame: dict[str, list[tuple[str, int]]] = {}
        for change, replaced in found.items():
            frame, tilde, _ = change[0].partition("~")
            if replaced is None and tilde:
                by_frame.setdefault(frame, []).append(change)
        for frame, changes in by_frame.items():
            stored = await self._last(frame)
            if stored is not None:
                events = {event.job_id: (event, stored.sequence) for event in read_job_frame(stored).events}
                found |= {change: events.get(change[0]) for change in changes}
        return found

    async def _before(self, job_id: str, version: int) -> tuple[JobEvent, int] | None:
        """The last definition under the job's own subject before a version."""
        before: tuple[JobEvent, int] | None = None
        after = 0
        while True:
            stored = await next_message(self._connection, names.JOBS, self.subject(job_id), after)
            if stored is None or stored.sequence >= version:
                return before
            events = [event for event in read_job_frame(stored).events if event.job_id == job_id]
            before = (events[-1], stored.sequence) if events else before
            after = stored.sequence

    async def change(
        self, definition: Definition, command: Callable[[Job], JobCommand], *, only_version: int | None = None
    ) -> Definition:
        """Carries out a command on the newest definition; raises Conflict when that is not `only_version`.

        Without `only_version` a change that lost to somebody else's is decided again on what they wrote.
        """
        for _ in range(_ATTEMPTS):
            if only_version is not None and definition.version != only_version:
                raise Conflict(f"the version is {definition.version}")
            events = decide(definition.job, command(definition.job), self._now())
            if not events:
                return definition
            try:
                return await self._append(definition, events[-1])
            except Conflict:
                definition = await self.read(definition.job.job_id) or definition
        raise Conflict("others keep changing it")

    async def _append(self, definition: Definition, event: JobEvent) -> Definition:
        sequence = await self._publisher.publish(
            self.subject(event.job_id),
            encode(JobFrame(events=(event,))),
            expect=Expect(last_subject_sequence=definition.own_sequence),
        )
        return Definition(
            job=evolve(definition.job, event), version=sequence, own_sequence=sequence, cause=event.cause
        )

    def subject(self, job_id: str) -> str:
        return names.job_subject(self.partition_of(job_id), job_id)

    async def _last(self, job_id: str) -> Stored | None:
        return await last_message(self._connection, names.JOBS, self.subject(job_id))


def _definition(stored: Stored, job_id: str, own_sequence: int) -> Definition | None:
    for event in reversed(read_job_frame(stored).events):
        if event.job_id == job_id:
            return Definition(
                job=evolve(None, event), version=stored.sequence, own_sequence=own_sequence, cause=event.cause
            )
    return None
