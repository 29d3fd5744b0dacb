"""A scheduler in this process against a real nats-server, with an executor and an api that tests play by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.publisher import Expect, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.settings import Settings
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame, decode_work, encode
from waterclock.proto.events import Frame, JobCreated, JobEvent, JobFrame, RunEvent, RunSucceeded
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import WorkItem
from waterclock.scheduler import service

PARTITIONS = 16


class Rig:
    def __init__(self, connection: Connection, publisher: Publisher, pulls: list[Pull]) -> None:
        self.connection = connection
        self.publisher = publisher
        self._pulls = pulls
        self._work: list[WorkItem] = []
        self._seen: set[tuple[str, int]] = set()

    async def create(
        self, job_id: str, spec: JobSpec, at: int | None = None, *, frame: str | None = None
    ) -> int:
        """`frame`: the job is created among others, under their common name."""
        now = now_us() if at is None else at
        event = JobCreated(job_id=job_id, spec=spec, at=now, created_at=now)
        return await self.change(event, expect=0, under=frame)

    async def change(self, event: JobEvent, expect: int | None = None, *, under: str | None = None) -> int:
        name = under or event.job_id
        subject = names.job_subject(names.partition_of(name, PARTITIONS), name)
        if expect is None:
            stored = await last_message(self.connection, names.JOBS, subject)
            expect = 0 if stored is None else stored.sequence
        return await self.publisher.publish(
            subject, encode(JobFrame(events=(event,))), expect=Expect(last_subject_sequence=expect)
        )

    async def report(self, *events: RunEvent) -> None:
        """Write to `RUNS` as an executor or the api does."""
        for event in events:
            partition = names.partition_of(event.run_id, PARTITIONS)
            frame = Frame(writer="test", events=(event,))
            await self.publisher.publish(names.runs_subject(partition), encode(frame))

    async def work(self, deadline: float = 30.0) -> WorkItem:
        """The next attempt in the queue, acked."""
        async with asyncio.timeout(deadline):
            while not self._work:
                for pull in self._pulls:
                    for delivery in await pull.next(timeout=0.01):
                        (item,) = decode_work(delivery.data)
                        if (
                            item.run_id,
                            item.queued,
                        ) not in self._seen:  # acked early here: an owner may recover it
                            self._work.append(item)
                        self._seen.add((item.run_id, item.queued))
                        pull.ack(delivery)
        return self._work.pop(0)

    async def succeed(self, item: WorkItem) -> None:
        now = now_us()
        await self.report(
            RunSucceeded(run_id=item.run_id, at=now, attempt=item.attempt, executor_id="test", started=now)
        )

    async def events(self) -> list[RunEvent]:
        """All of `RUNS`, in order."""
        last = (await stream_state(self.connection, names.RUNS)).last_seq
        found: list[RunEvent] = []
        async with Pull.ordered(
            self.connection, names.RUNS, [names.runs_subject()], after_sequence=0
        ) as pull:
            while pull.pending and pull.sequence < last:
                for delivery in await pull.next(timeout=1.0):
                    found.extend(decode_frame(delivery.data).events)
        return found

    async def until(
        self, condition: Callable[[list[RunEvent]], bool], deadline: float = 30.0
    ) -> list[RunEvent]:
        return await eventually(self.events, "events", deadline, wanted=condition)

    async def until_definition(self, job_id: str, kind: type, deadline: float = 30.0) -> JobEvent:
        async def found() -> JobEvent | None:
            event = await self.definition(job_id)
            return event if isinstance(event, kind) else None

        return await eventually(found, f"{job_id} to be {kind.__name__}", deadline)

    async def definition(self, job_id: str) -> JobEvent | None:
        subject = names.job_subject(names.partition_of(job_id, PARTITIONS), job_id)
        stored = await last_message(self.connection, names.JOBS, subject)
        return None if stored is None else decode_job_frame(stored.data).events[-1]


@asynccontextmanager
async def rig(url: str, *, routes: tuple[str, ...] = ("default",)) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(Connection.open(url, name="test"))
        await ensure_streams(connection, Layout(partitions=PARTITIONS))
        lines = [(route, "light", names.ALWAYS) for route in routes]
        await ensure_work_consumers(connection, lines)
        consumers = [names.work_consumer(*line) for line in lines]
        pulls = [
            await stack.enter_async_context(Pull.durable(connection, names.WORK, consumer, batch=10))
            for consumer in consumers
        ]
        yield Rig(connection, Publisher(connection), pulls)


@asynccontextmanager
async def scheduler(url: str, tmp_path: Path) -> AsyncIterator[None]:
    """A whole scheduler service, stopped in good order at the end."""
    stop = StopSignal()
    settings = Settings(data=tmp_path, nats_url=url, partitions=PARTITIONS)
    task = asyncio.create_task(service.run(settings, stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await task
