"""Many short runs at once, with everything real: they travel in parcels, and nobody who looks at them sees that."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from support.waiting import eventually
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.executor import Context, Worker
from waterclock.proto import names
from waterclock.proto.codec import decode_frame
from waterclock.proto.events import RunQueued, RunSucceeded

from .conftest import Served
from .test_handler_runs import served_by

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

CROWD = 400
SLOTS = 4
QUEUE = "packed"


class Log:
    """What the log says of the runs of some jobs."""

    def __init__(self) -> None:
        self.queued: dict[str, RunQueued] = {}
        self.succeeded: Counter[str] = Counter()

    async def read(self, house: Served) -> None:
        source = Pull.ordered(house.app.connection, names.RUNS, [names.runs_subject()], after_sequence=0)
        async with source as pull:
            while True:
                for delivery in await pull.next():
                    for event in decode_frame(delivery.data).events:
                        if isinstance(event, RunQueued) and event.queue == QUEUE:
                            self.queued[event.run_id] = event
                        elif isinstance(event, RunSucceeded):
                            self.succeeded[event.run_id] += 1

    @property
    def packed(self) -> list[str]:
        """Runs that share a message with others, and are not the first of it."""
        return [run_id for run_id, event in self.queued.items() if event.parcel not in ("", run_id)]


def worker_of(begun: list[str], gate: asyncio.Event) -> Worker:
    worker = Worker(queue=QUEUE, slots=SLOTS)

    @worker.handler("quick")
    async def quick(context: Context, payload: Any) -> None:
        begun.append(context.run_id)

    @worker.handler("slow")
    async def slow(context: Context, payload: Any) -> None:
        begun.append(context.run_id)
        await gate.wait()

    return worker


async def submit(house: Served, handler: str, count: int) -> list[str]:
    job = {"name": handler, "job_type": handler, "queue": QUEUE, "schedule": "now"}
    return [made.job_id for made in await house.client.jobs.create_many([job] * count) if made.job_id]


async def test_a_crowd_travels_in_parcels_is_counted_by_runs_and_one_of_it_can_be_cancelled(
    house: Served,
) -> None:
    begun: list[str] = []
    gate, log = asyncio.Event(), Log()
    reading = asyncio.create_task(log.read(house))
    async with served_by(house, worker_of(begun, gate)):

        async def travels_in_parcels() -> bool:
            """It is known after a few seconds how long runs take, and who takes parcels."""
            expected = log.succeeded.total() + CROWD
            await submit(house, "quick", CROWD)
            await eventually(lambda: log.succeeded.total() >= expected, "a crowd that has run", within=60)
            return bool(log.packed)

        await eventually(travels_in_parcels, "a crowd in parcels", within=90)
        assert Counter(begun) == Counter(list(log.succeeded)), "each once"

        await submit(house, "slow", SLOTS)
        await eventually(lambda: len(begun) == log.succeeded.total() + SLOTS, "all slots taken", within=30)
        before = set(log.queued)
        await submit(house, "quick", CROWD)

        def queued() -> list[str]:
            return [run_id for run_id in log.queued if run_id not in before]

        async def counted() -> bool:
            """By runs: those in the queue, and those that have no room there."""
            found = [each for each in await house.client.queues.list() if each.handler == "quick"]
            waiting, due = sum(each.waiting for each in found), sum(each.due for each in found)
            return waiting == len(queued()) and waiting + due == CROWD

        await eventually(counted, "as many waiting as there are runs", within=60)
        packed = [run_id for run_id in log.packed if run_id not in before]
        cancelled = packed[-1]
        await house.client.runs.cancel(cancelled)
        run = await house.client.runs.get(cancelled)
        await eventually(lambda: _is(house, cancelled, "CANCELLED"), f"{run} to be cancelled", within=30)
        gate.set()
        await eventually(
            lambda: len(queued()) == CROWD and {*queued()} - {cancelled} <= log.succeeded.keys(),
            "all the others to run",
            within=60,
        )
    reading.cancel()
    assert cancelled not in begun
    assert max(Counter(begun).values()) == 1
    assert log.succeeded[cancelled] == 0


async def _is(house: Served, run_id: str, status: str) -> bool:
    return (await house.client.runs.get(run_id)).status == status
