"""One role of the bare JetStream floor: `python -m bench.bare_jetstream prepare|decide|execute|read URL COUNT`.

Says `ready`, and the reader `done` when every outcome has come by. Bodies are encoded beforehand; what is left is
what the broker and its client take.
"""

import asyncio
import sys
import time

import uvloop

from bench.jobs import PAYLOAD
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Frame, RunQueued, RunSucceeded
from waterclock.proto.spec import Handler, JobSpec
from waterclock.proto.work import WorkItem

_ROUTE = names.route_of("default", "noop")
_PARTITIONS = 16
_FRAME = 250
_DEMAND = 2048
_NOW = 1_800_000_000_000_000


async def prepare(connection: Connection, count: int) -> None:
    await ensure_streams(connection, Layout(partitions=_PARTITIONS))
    await ensure_work_consumers(connection, [(_ROUTE, "light", "0")])
    print("ready", flush=True)


async def decide(connection: Connection, count: int) -> None:
    """As many partitions at once as there are; each waits for its frame before it publishes the work."""
    publisher = Publisher(connection)
    events = [
        RunQueued(run_id=_run(n), at=_NOW, version=1, scheduled=_NOW, due=_NOW, handler="noop")
        for n in range(_FRAME)
    ]
    frame = encode(Frame(writer="decide", events=tuple(events), cursor=None))
    spec = JobSpec(name="noop", task=Handler(handler="noop"), payload=PAYLOAD)
    item = encode(
        WorkItem(run_id=_run(0), job_id=_run(0), version=1, spec=spec, scheduled=_NOW, due=_NOW, queued=_NOW)
    )
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    starts = iter(range(0, count, _FRAME))

    async def partition(number: int) -> None:
        for start in starts:
            await publisher.publish(names.runs_subject(number), frame)
            subjects = (
                names.work_subject(_ROUTE, "light", "0", _run(n), _NOW)
                for n in range(start, min(start + _FRAME, count))
            )
            await publisher.publish_work([Message(subject=subject, data=item) for subject in subjects])

    await asyncio.gather(*map(partition, range(_PARTITIONS)))
    await asyncio.to_thread(sys.stdin.readline)


async def execute(connection: Connection, count: int) -> None:
    publisher = Publisher(connection)
    ends = [
        RunSucceeded(run_id=_run(n), at=_NOW, attempt=1, started=_NOW, executor_id="bench")
        for n in range(_FRAME)
    ]
    outcomes = {
        size: encode(Frame(writer="execute", events=tuple(ends[:size]), cursor=None))
        for size in range(_FRAME + 1)
    }
    consumer = names.work_consumer(_ROUTE, "light", "0")
    tasks: set[asyncio.Task[None]] = set()
    async with Pull.durable(connection, names.WORK, consumer, demand=_DEMAND) as pull:

        async def finish(partition: int, deliveries: list[Delivery]) -> None:
            await publisher.publish(names.runs_subject(partition), outcomes[len(deliveries)])
            for delivery in deliveries:
                pull.ack(delivery)

        print("ready", flush=True)
        for number in range(sys.maxsize):
            deliveries = await pull.next()
            for start in range(0, len(deliveries), _FRAME):
                task = asyncio.create_task(finish(number % _PARTITIONS, deliveries[start : start + _FRAME]))
                tasks.add(task)
                task.add_done_callback(tasks.discard)


async def read(connection: Connection, count: int) -> None:
    async with Pull.ordered(connection, names.RUNS, [names.runs_subject()], after_sequence=0) as pull:
        print("ready", flush=True)
        ended = 0
        while ended < count:
            for delivery in await pull.next():
                ended += delivery.data.count(b'"succeeded"')
    print("done", flush=True)
    await asyncio.to_thread(time.sleep, 1)


def _run(number: int) -> str:
    return f"benchbenchbench{number}~0@20261116T030000Z"


async def _main(role: str, url: str, count: int) -> None:
    async with Connection.open(url, name=f"bare-{role}") as connection:
        await {"prepare": prepare, "decide": decide, "execute": execute, "read": read}[role](
            connection, count
        )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
