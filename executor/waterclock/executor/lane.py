"""Slots, what fills them, and each attempt's way through: resolve, start, perform, classify, report."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping

from msgspec import Struct

from waterclock.core.jetstream.delivery import Delivery
from waterclock.core.jetstream.work_queue import Acks
from waterclock.core.runtime.clock import now_us
from waterclock.executor import ending
from waterclock.executor.attempt import Attempt
from waterclock.executor.claims import Claims
from waterclock.executor.classify import classify
from waterclock.executor.deadline import start_deadline
from waterclock.executor.performer.performer import Performer
from waterclock.executor.reporter import Reporter
from waterclock.executor.running import Cause, InHand, Running
from waterclock.executor.slots import Slots
from waterclock.executor.stops import Stops
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

_ASK_AGAIN_SECONDS = 1.0
_LAST_GRACE_SECONDS = 1.0


class Desk(Struct, frozen=True, kw_only=True):
    """What all lanes of an executor share."""

    executor_id: str
    in_hand: InHand
    acks: Acks
    reporter: Reporter
    claims: Claims
    stops: Stops
    stop_grace: float
    """Seconds between TERM and KILL."""


class Lane:
    def __init__(self, desk: Desk, slots: Slots, performers: Mapping[type, Performer]) -> None:
        self.slots = slots
        self.on_room: Callable[[], None] = lambda: None
        """Called when a slot has become free."""
        self._desk = desk
        self._performers = performers
        self._waiting: deque[tuple[Running, int]] = deque()
        """Delivered, but costing more slots than are free."""
        self._performing: set[Running] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, item: WorkItem, delivery: Delivery) -> None:
        """A delivery has arrived: run it, unless it is known, over or unwanted."""
        desk = self._desk
        known = desk.in_hand.get(item)
        if known is not None:
            known.delivery = delivery
        elif desk.reporter.knows_end_of(item) or desk.stops.withdrew(item.run_id):
            desk.acks.ack(delivery)
        else:
            running = Running(item, delivery, self.slots.cost_of(item.spec.slots))
            desk.in_hand.add(running)
            if delivery.delivered > 1 or item.recovered:
                self._spawn(self._claim(running))
            else:
                self._admit(running, item.crash_count)

    async def drain(self, grace: float) -> None:
        """Finish what was taken within the grace, then hand the rest back."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        cause = Cause(kind="handed_back", reason="its executor was stopped", grace=_LAST_GRACE_SECONDS)
        while self._waiting:
            running, crash_count = self._waiting.popleft()
            attempt = self._start(running, crash_count)
            self._report(running, attempt, ending.HandedBack(reason=cause.reason))
        while self._tasks:
            for running in list(self._performing):
                running.stop(cause)
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Drop everything. What was not reported comes back to somebody else."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _claim(self, running: Running) -> None:
        desk = self._desk
        verdict = await desk.claims.ask(running.item, running.delivery.delivered)
        match verdict.kind:
            case "run":
                self._admit(running, verdict.crash_count)
            case "drop":
                desk.in_hand.remove(running)
                desk.acks.ack(running.delivery)
            case "wait":
                desk.in_hand.remove(running)
                desk.acks.nak(running.delivery, _ASK_AGAIN_SECONDS)

    def _admit(self, running: Running, crash_count: int) -> None:
        if self._waiting or not self.slots.fits(running.cost):
            self._waiting.append((running, crash_count))
            self.slots.promised += running.cost
        else:
            self.slots.used += running.cost
            self._spawn(self._run(running, crash_count))

    async def _run(self, running: Running, crash_count: int) -> None:
        attempt = self._start(running, crash_count)
        self._performing.add(running)
        try:
            end = await self._perform(attempt, running)
        finally:
            self._performing.discard(running)
            self._release(running.cost)
        self._report(running, attempt, end)

    def _start(self, running: Running, crash_count: int) -> Attempt:
        attempt = Attempt(
            item=running.item,
            executor_id=self._desk.executor_id,
            started=now_us(),
            crash_count=crash_count,
        )
        running.attempt = attempt
        return attempt

    async def _perform(self, attempt: Attempt, running: Running) -> ending.Ending:
        spec = running.item.spec
        performer = self._performers.get(type(spec.task))
        if performer is None:
            return ending.Failed(reason=f"this executor cannot run a {type(spec.task).__name__}", final=True)
        self._desk.reporter.started(running, at_once=performer.slow)
        deadline = None
        if spec.timeout_seconds is not None:
            deadline = start_deadline(running, spec.timeout_seconds, self._desk.stop_grace)
        try:
            return await performer.perform(attempt, running)
        except Exception as error:
            _log.exception("an attempt broke the executor", extra={"run_id": running.item.run_id})
            return ending.Failed(reason=f"the executor could not run it: {type(error).__name__}: {error}")
        finally:
            if deadline is not None:
                deadline.cancel()

    def _report(self, running: Running, attempt: Attempt, end: ending.Ending) -> None:
        self._desk.reporter.ended(running, classify(attempt, end, now_us()), self._let_go)

    def _let_go(self, running: Running) -> None:
        self._desk.acks.ack(running.delivery)

    def _release(self, cost: int) -> None:
        slots = self.slots
        slots.used -= cost
        while self._waiting and slots.fits(self._waiting[0][0].cost):
            running, crash_count = self._waiting.popleft()
            slots.promised -= running.cost
            slots.used += running.cost
            self._spawn(self._run(running, crash_count))
        self.on_room()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
