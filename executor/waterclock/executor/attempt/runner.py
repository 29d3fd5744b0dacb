"""Slots, what fills them, and each attempt's way through: resolve, start, perform, classify, report."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping

from waterclock.core.domain.run.deadlines import missed_in_queue
from waterclock.core.jetstream.messages import Delivery
from waterclock.core.runtime.clock import now_us
from waterclock.executor import attempt_record
from waterclock.executor.attempt.outcome import OutcomeEvent, classify, rejected
from waterclock.executor.attempt.shared import Desk
from waterclock.executor.attempt_record import Attempt
from waterclock.executor.in_flight import Cause, Running, ended_by, key_of
from waterclock.executor.intake.sources import Slots
from waterclock.executor.limits.admission import is_gated
from waterclock.executor.limits.concurrency import Place
from waterclock.executor.perform.performer import Performer, start_deadline
from waterclock.executor.warden.client import WardenLost
from waterclock.proto.events import RunsMissed
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

_ASK_AGAIN_SECONDS = 1.0
_LAST_GRACE_SECONDS = 1.0


class Lane:
    def __init__(self, desk: Desk, slots: Slots, performers: Mapping[type, Performer]) -> None:
        self.slots = slots
        self.on_room: Callable[[], None] = lambda: None
        """Called when a slot has become free."""
        self._desk = desk
        self._performers = performers
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Running, int]] = deque()
        """Delivered, but costing more slots than are free; and the crash count of each."""
        self._places: dict[Running, Place] = {}
        """Under concurrency keys, to be given back."""
        self._busy: set[Running] = set()
        """Being claimed or performed: each has a task."""
        self._idle = asyncio.Event()

    def take(self, item: WorkItem, delivery: Delivery) -> None:
        """A delivery has arrived: run it, unless it is known, over or unwanted."""
        desk = self._desk
        key = key_of(item)
        known = desk.in_hand.get(key)
        if known is not None:
            known.delivery = delivery
            desk.keep_alive.hold(known)
        elif desk.reporter.knows_end_of(key) or desk.stops.withdrew(item.run_id):
            desk.acks.ack(delivery)
        else:
            running = Running(item, key, delivery, self.slots.cost_of(item.spec.slots))
            desk.in_hand.add(running)
            desk.keep_alive.hold(running)
            if delivery.delivered > 1 or item.recovered:
                self._busy.add(running)
                running.task = self._loop.create_task(self._claim(running))
            else:
                self._admit(running, item.crash_count)

    async def drain(self, grace: float) -> None:
        """Finish what was taken within the grace, then hand the rest back."""
        try:
            async with asyncio.timeout(grace):
                await self._until_idle()
        except TimeoutError:
            pass
        cause = Cause(kind="handed_back", reason="its executor was stopped", grace=_LAST_GRACE_SECONDS)
        while self._busy or self._waiting:
            while self._waiting:
                running, crash_count = self._waiting.popleft()
                attempt = self._started(running, crash_count)
                self._report(running, classify(attempt, ended_by(cause), now_us()))
                await self._leave_place(running)
            for running in list(self._busy):
                running.stop(cause)
            await self._until_idle()

    async def close(self) -> None:
        """Drop everything. What was not reported comes back to somebody else."""
        tasks = [running.task for running in self._busy if running.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_idle(self) -> None:
        while self._busy:
            self._idle.clear()
            await self._idle.wait()

    async def _claim(self, running: Running) -> None:
        desk = self._desk
        try:
            verdict = await desk.claims.ask(running.item, running.delivery.delivered)
        finally:
            self._rest(running)
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
        if is_gated(running.item.spec):
            self._busy.add(running)
            running.task = self._loop.create_task(self._run_gated(running, crash_count))
        else:
            self._fill(running, crash_count)

    async def _run_gated(self, running: Running, crash_count: int) -> None:
        """Wait at the gates first, without a slot."""
        try:
            entered = await self._desk.gates.enter(running)
        finally:
            self._rest(running)
        if isinstance(entered, Place):
            self._places[running] = entered
            self._fill(running, crash_count)
        elif entered is None:
            self._fill(running, crash_count)
        else:
            self._report(running, classify(self._started(running, crash_count), entered, now_us()))

    def _fill(self, running: Running, crash_count: int) -> None:
        slots = self.slots
        if self._waiting or not slots.fits(running.cost):
            self._waiting.append((running, crash_count))
            slots.promised += running.cost
        else:
            slots.used += running.cost
            self._busy.add(running)
            running.task = self._loop.create_task(self._run(running, crash_count))

    async def _run(self, running: Running, crash_count: int) -> None:
        try:
            spec = running.item.spec
            if spec.start_deadline_seconds is not None and self._is_too_late(running, crash_count):
                return
            if spec.delivery == "exactly_once":
                await self._run_fenced(running, crash_count)
            else:
                attempt = self._started(running, crash_count)
                end = await self._perform(attempt, running)
                self._report(running, classify(attempt, end, now_us()))
        except Exception as error:
            # Nothing is known of it, so nothing is said: it comes back to somebody, who asks the owner.
            self._desk.in_hand.remove(running)
            if not isinstance(error, WardenLost):
                _log.exception("an attempt was dropped", extra={"run_id": running.item.run_id})
        finally:
            try:
                await self._leave_place(running)
            finally:
                self._rest(running)
                self._release(running.cost)

    def _is_too_late(self, running: Running, crash_count: int) -> bool:
        """Whether it was queued past its start deadline; if so, that is said and it is over."""
        missed = missed_in_queue(running.item, crash_count, now_us())
        if missed is None or running.cause is not None:
            return False
        self._report(running, missed)
        return True

    async def _run_fenced(self, running: Running, crash_count: int) -> None:
        """As any other, but under a lease, and reported only if the lease is still held."""
        fence = await self._desk.fences.acquire(running.item, running)
        if fence is None:
            assert running.cause is not None
            attempt = self._started(running, crash_count)
            self._report(running, classify(attempt, ended_by(running.cause), now_us()))
            return
        attempt = self._started(running, crash_count, fence.token)
        keeping = self._loop.create_task(fence.keep(running))
        try:
            end = await self._perform(attempt, running)
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
        other = await fence.confirm()
        event = classify(attempt, end, now_us())
        if other is None:
            self._report(running, event)
            await fence.release()
        else:
            self._desk.reporter.ended(running, rejected(attempt, event, other), let_go=None)

    async def _perform(self, attempt: Attempt, running: Running) -> attempt_record.Ending:
        if running.cause is not None:
            return ended_by(running.cause)
        spec = running.item.spec
        performer = self._performers.get(type(spec.task))
        if performer is None:
            return attempt_record.Failed(
                reason=f"this executor cannot run a {type(spec.task).__name__}", final=True
            )
        self._desk.reporter.started(running)
        deadline = None
        if spec.timeout_seconds is not None:
            deadline = start_deadline(running, spec.timeout_seconds, self._desk.stop_grace)
        try:
            return await performer.perform(attempt, running)
        except WardenLost:
            raise  # no outcome is known; the executor goes down, and its work to others
        except Exception as error:
            _log.exception("an attempt broke the executor", extra={"run_id": running.item.run_id})
            return attempt_record.Failed(
                reason=f"the executor could not run it: {type(error).__name__}: {error}"
            )
        finally:
            if deadline is not None:
                deadline.cancel()

    def _started(self, running: Running, crash_count: int, token: int | None = None) -> Attempt:
        attempt = running.attempt = Attempt(
            item=running.item,
            executor_id=self._desk.executor_id,
            started=now_us(),
            crash_count=crash_count,
            fencing_token=token,
        )
        return attempt

    def _report(self, running: Running, event: OutcomeEvent | RunsMissed) -> None:
        self._desk.reporter.ended(running, event, self._desk.keep_alive.let_go)

    async def _leave_place(self, running: Running) -> None:
        if self._places and (place := self._places.pop(running, None)) is not None:
            await self._desk.gates.keys.release(place)

    def _rest(self, running: Running) -> None:
        self._busy.discard(running)
        if not self._busy:
            self._idle.set()

    def _release(self, cost: int) -> None:
        slots = self.slots
        slots.used -= cost
        while self._waiting and slots.fits(self._waiting[0][0].cost):
            running, crash_count = self._waiting.popleft()
            slots.promised -= running.cost
            slots.used += running.cost
            self._busy.add(running)
            running.task = self._loop.create_task(self._run(running, crash_count))
        self.on_room()
