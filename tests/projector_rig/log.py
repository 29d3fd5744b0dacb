"""A log to project: what the api, the owners and the executors would append."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Cursor, Frame, JobEvent, JobFrame, RunEvent

PARTITIONS = 4


class Log:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._publisher = Publisher(connection)
        self.jobs_seen = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, partitions: int = PARTITIONS) -> AsyncIterator["Log"]:
        async with Connection.open(url, name="test-log") as connection:
            await ensure_streams(connection, Layout(partitions=partitions))
            yield cls(connection)

    async def jobs(self, *events: JobEvent, subject: str | None = None) -> int:
        """One message for all of them; answers its sequence, which is their version."""
        job_id = subject or events[0].job_id
        where = names.job_subject(names.partition_of(job_id, PARTITIONS), job_id)
        self.jobs_seen = await self._publisher.publish(where, encode(JobFrame(events=events)))
        return self.jobs_seen

    async def runs(self, *events: RunEvent, writer: str = "scheduler-test") -> int:
        """A frame for each partition that the runs are in; answers the last one's sequence."""
        frames: dict[int, list[RunEvent]] = defaultdict(list)
        for event in events:
            frames[names.partition_of(event.run_id, PARTITIONS)].append(event)
        sequences = [
            self.frame(
                partition,
                Frame(writer=writer, events=tuple(frame), cursor=Cursor(jobs=self.jobs_seen, time=0)),
            )
            for partition, frame in frames.items()
        ]
        return max(await asyncio.gather(*sequences))

    async def frame(self, partition: int, frame: Frame) -> int:
        return await self.raw(names.runs_subject(partition), encode(frame))

    async def raw(self, subject: str, data: bytes) -> int:
        return await self._publisher.publish(subject, data)

    async def many(self, batches: Iterable[Iterable[RunEvent]]) -> int:
        """Frames of the batches, each after the one before."""
        last = 0
        for batch in batches:
            last = await self.runs(*batch)
        return last

    async def append_steps(self, steps: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
        """Append a history, step by step."""
        for stream, events in steps:
            await (self.jobs(*events) if stream == "jobs" else self.runs(*events))
