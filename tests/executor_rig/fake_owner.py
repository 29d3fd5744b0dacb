"""A stand-in for the scheduler: publishes work, reads what comes of it, answers claims."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from nats.aio.msg import Msg

from support.waiting import eventually
from waterclock.core.domain import ids
from waterclock.core.jetstream.access.work_consumers import WorkLines, making_work_consumers
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import Outcome, OutcomeRejected, RunCancelled, RunEvent, RunStarted
from waterclock.proto.spec import Handler, JobSpec, Task
from waterclock.proto.work import ClaimReply, ClaimRequest, Parcel, StopRequest, WorkItem

PARTITIONS = 4
PATIENCE = 20.0

E = TypeVar("E", bound=RunEvent)


class FakeOwner:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.lines = WorkLines(connection)
        self.publisher = Publisher(connection)
        self.events: list[RunEvent] = []
        self.claims: list[ClaimRequest] = []
        self.verdict: Callable[[ClaimRequest], ClaimReply] = lambda _: ClaimReply(verdict="run")
        self._changed = asyncio.Condition()
        self._numbers = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["FakeOwner"]:
        async with Connection.open(url, name="owner") as connection:
            await ensure_streams(connection, Layout(partitions=PARTITIONS))
            owner = cls(connection)
            await connection.nc.subscribe(names.claim_subject(), cb=owner._answer)
            async with (
                making_work_consumers(connection) as lines,
                Pull.ordered(connection, names.RUNS, [names.runs_subject()], after_sequence=0) as pull,
            ):
                owner.lines = lines
                reading = asyncio.create_task(owner._read(pull))
                try:
                    yield owner
                finally:
                    reading.cancel()

    def item(self, task: Task, *, run: dict[str, Any] | None = None, **spec: Any) -> WorkItem:
        self._numbers += 1
        now = time.time_ns() // 1000
        fields: dict[str, Any] = {
            "run_id": f"job{self._numbers}@now-{self._numbers}",
            "version": 1,
            "spec": JobSpec(name="a job", task=task, **spec),
            "scheduled": now,
            "due": now,
            "queued": now,
            "exact": True,
            **(run or {}),
        }
        return WorkItem(job_id=ids.job_of(fields["run_id"]), **fields)

    async def give(self, *items: WorkItem) -> None:
        await self.lines.ensure({consumer_of(item) for item in items})
        await self.publisher.publish_work([message(item) for item in items])

    async def give_parcel(self, *items: WorkItem) -> None:
        """All of them in one message."""
        first = message(items[0])
        line = first.subject.rsplit(".", 2)[0]
        subject = names.parcel_in(line, items[0].run_id, items[0].queued)
        await self.publisher.publish_work([Message(subject=subject, data=encode(Parcel(items)))])

    async def submit(self, task: Task, **kwargs: Any) -> WorkItem:
        item = self.item(task, **kwargs)
        await self.give(item)
        return item

    async def stop(
        self, run_id: str, *, to: str = "all", now: bool = False, until: int | None = None
    ) -> None:
        request = StopRequest(run_id=run_id, reason="cancelled by a test", now=now, until=until)
        await self.connection.nc.publish(names.stop_subject(to), encode(request))

    async def said(self, executor_id: str, item: WorkItem, expected: bytes) -> bool:
        """Whether the run has said exactly this until now, as its executor tells it."""
        try:
            subject = names.tell_subject(executor_id)
            reply = await self.connection.request(subject, item.run_id.encode(), timeout=0.2)
        except LogUnavailable:
            return False
        return reply.data == expected

    def of(self, item: WorkItem) -> list[RunEvent]:
        return [event for event in self.events if event.run_id == item.run_id]

    def ends_of(self, item: WorkItem) -> list[RunEvent]:
        return [e for e in self.of(item) if isinstance(e, Outcome | RunCancelled | OutcomeRejected)]

    async def end_of(self, item: WorkItem, kind: type[E]) -> E:
        """Wait for the first outcome; it must be of this kind."""
        await self.until(lambda: bool(self.ends_of(item)), f"an end of {item.run_id}")
        end = self.ends_of(item)[0]
        assert isinstance(end, kind), end
        return end

    async def start_of(self, item: WorkItem) -> RunStarted:
        await self.until(
            lambda: any(isinstance(e, RunStarted) for e in self.of(item)), f"a start of {item.run_id}"
        )
        return next(e for e in self.of(item) if isinstance(e, RunStarted))

    async def until(self, condition: Callable[[], bool], what: str, within: float = PATIENCE) -> None:
        """Wait until something holds of the events read so far."""
        try:
            async with asyncio.timeout(within), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"no {what} within {within:g} s; events: {self.events[-20:]}") from None

    async def work_left(self) -> int:
        info = await self.connection.api(f"STREAM.INFO.{names.WORK}")
        return int(info["state"]["messages"])

    async def deliveries(self, item: WorkItem, count: int) -> bool:
        """Whether the work has been handed out so often."""
        info = await self.connection.api(f"CONSUMER.INFO.{names.WORK}.{consumer_of(item)}")
        return int(info["delivered"]["consumer_seq"]) >= count

    async def held(self) -> int:
        """How many deliveries executors hold."""
        listing = await self.connection.api(f"CONSUMER.LIST.{names.WORK}")
        return sum(consumer["num_ack_pending"] for consumer in listing["consumers"])

    async def until_held(self, count: int) -> None:
        async def enough() -> bool:
            return await self.held() >= count

        await eventually(enough, f"{count} deliveries in hand", within=PATIENCE)

    async def pid_of(self, executor_id: str) -> int:
        """From its heartbeat."""
        control = Bucket(self.connection, self.publisher, names.CONTROL)
        entry = await control.get(names.member_key("executor", executor_id))
        assert entry is not None
        return int(msgspec.json.decode(entry.value)["pid"])

    async def nothing_left(self) -> None:
        """Wait until the work queue is empty: everything was acked."""

        async def empty() -> bool:
            return await self.work_left() == 0

        await eventually(empty, "an empty work queue", within=PATIENCE)

    async def _read(self, pull: Pull) -> None:
        while True:
            for delivery in await pull.next():
                self.events.extend(decode_frame(delivery.data).events)
            async with self._changed:
                self._changed.notify_all()

    async def _answer(self, asked: Msg) -> None:
        request = msgspec.json.decode(asked.data, type=ClaimRequest)
        self.claims.append(request)
        replies = [self.verdict(each) for each in (request, *request.more)]
        await asked.respond(encode(msgspec.structs.replace(replies[0], more=tuple(replies[1:]))))


def line_of(item: WorkItem) -> tuple[str, str, str]:
    """An item that is not `exact` waits as those of the first releases did."""
    spec = item.spec
    route = names.route_of(spec.queue, spec.task.handler if isinstance(spec.task, Handler) else None)
    return route, spec.tier, names.line_of(spec.priority, item.exact)


def consumer_of(item: WorkItem) -> str:
    return names.work_consumer(*line_of(item))


def message(item: WorkItem) -> Message:
    return Message(
        subject=names.work_subject(*line_of(item), item.run_id, item.queued),
        data=encode(item),
        headers={"Nats-Msg-Id": f"{item.run_id}/{item.attempt}/{item.queued}"},
    )
