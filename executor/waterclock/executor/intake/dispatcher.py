"""Step one, resolve: what becomes of each delivery, and when it gets a slot.

A delivery of an attempt that we run already replaces the old one. One whose outcome we wrote, or that was stopped
before it came, is acked. One that is not certainly the first is claimed with its owner. A run with a concurrency or
rate key waits for its turn. What is left gets slots as soon as enough are free, and its task runs the attempt.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import assert_never

from waterclock.core.jetstream.messages import Delivery
from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.attempt.reporter import Reporter
from waterclock.executor.attempt.runner import Runner
from waterclock.executor.attempt.stop_requests import StopRequests
from waterclock.executor.in_flight import InFlight, RunningAttempt, StopCause, result_of_stop, work_key
from waterclock.executor.intake.redelivery import Claims
from waterclock.executor.intake.slots import Slots
from waterclock.executor.limits.admission import Admission, is_limited
from waterclock.executor.limits.concurrency import Permit
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

_CLAIM_AGAIN_SECONDS = 1.0
_LAST_GRACE_SECONDS = 1.0


class Dispatcher:
    """Owns the tasks of the attempts that share one set of slots: `close` ends and awaits them.

    They are not supervised: one that fails ends its attempt and not the executor, and there are thousands a second.
    """

    def __init__(
        self,
        slots: Slots,
        runner: Runner,
        *,
        in_flight: InFlight,
        acks: Acks,
        keepalive: KeepAlive,
        reporter: Reporter,
        stop_requests: StopRequests,
        claims: Claims,
        admission: Admission,
    ) -> None:
        self.slots = slots
        self.on_free_slot: Callable[[], None] = lambda: None
        self._runner = runner
        self._in_flight = in_flight
        self._acks = acks
        self._keepalive = keepalive
        self._reporter = reporter
        self._stop_requests = stop_requests
        self._claims = claims
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[RunningAttempt, int, Permit | None]] = deque()
        """Resolved, but costing more slots than are free; each with its crash count and permit."""
        self._busy: set[RunningAttempt] = set()
        """Being resolved or performed: each has a task."""
        self._idle = asyncio.Event()

    def dispatch(self, item: WorkItem, delivery: Delivery) -> None:
        key = work_key(item)
        known = self._in_flight.get(key)
        if known is not None:
            known.delivery = delivery
            self._keepalive.delivered(known)
        elif self._reporter.has_reported(key) or self._stop_requests.came_before(item.run_id):
            self._acks.ack(delivery)
        else:
            running = RunningAttempt(item, key, delivery, self.slots.cost_of(item.spec.slots))
            self._in_flight.add(running)
            self._keepalive.delivered(running)
            must_claim = delivery.delivered > 1 or item.recovered
            if must_claim or is_limited(item.spec):
                self._busy.add(running)
                running.task = self._loop.create_task(self._resolve(running, must_claim))
            else:
                self._give_slots(running, item.crash_count, None)

    async def drain(self, grace: float) -> None:
        """Finish what was taken within the grace, then return the rest to the queue."""
        try:
            async with asyncio.timeout(grace):
                await self._until_idle()
        except TimeoutError:
            pass
        cause = StopCause(kind="returned", reason="its executor was stopped", grace=_LAST_GRACE_SECONDS)
        while self._busy or self._waiting:
            while self._waiting:
                running, crash_count, permit = self._waiting.popleft()
                self._runner.finish_unperformed(running, crash_count, result_of_stop(cause))
                if permit is not None:
                    await self._admission.concurrency.release(permit)
            for running in list(self._busy):
                running.stop(cause)
            await self._until_idle()

    async def close(self) -> None:
        """Drop everything. What was not reported is delivered to another executor."""
        tasks = [running.task for running in self._busy if running.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_idle(self) -> None:
        while self._busy:
            self._idle.clear()
            await self._idle.wait()

    async def _resolve(self, running: RunningAttempt, must_claim: bool) -> None:
        """Claim it and wait for its limits, as far as it needs that. It has no slot meanwhile."""
        crash_count, permit = running.item.crash_count, None
        try:
            if must_claim:
                claim = await self._claims.ask(running.item, running.delivery.delivered)
                match claim.verdict:
                    case "run":
                        crash_count = claim.crash_count
                    case "drop":
                        self._in_flight.remove(running)
                        self._acks.ack(running.delivery)
                        return
                    case "wait":
                        self._in_flight.remove(running)
                        self._acks.nak(running.delivery, _CLAIM_AGAIN_SECONDS)
                        return
                    case _:
                        assert_never(claim.verdict)
            if is_limited(running.item.spec):
                admitted = await self._admission.wait(running)
                if admitted is not None and not isinstance(admitted, Permit):
                    self._runner.finish_unperformed(running, crash_count, admitted)
                    return
                permit = admitted
        except Exception:
            self._in_flight.remove(running)  # so that it is delivered again
            _log.exception("an attempt was dropped", extra={"run_id": running.item.run_id})
            return
        finally:
            self._not_busy(running)
        self._give_slots(running, crash_count, permit)

    def _give_slots(self, running: RunningAttempt, crash_count: int, permit: Permit | None) -> None:
        slots = self.slots
        if self._waiting or not slots.fits(running.cost):
            self._waiting.append((running, crash_count, permit))
            slots.promised += running.cost
        else:
            self._start(running, crash_count, permit)

    def _start(self, running: RunningAttempt, crash_count: int, permit: Permit | None) -> None:
        self.slots.used += running.cost
        self._busy.add(running)
        running.task = self._loop.create_task(self._runner.run(running, crash_count, permit, self._ended))

    def _ended(self, running: RunningAttempt) -> None:
        self._not_busy(running)
        slots = self.slots
        slots.used -= running.cost
        while self._waiting and slots.fits(self._waiting[0][0].cost):
            next_running, crash_count, permit = self._waiting.popleft()
            slots.promised -= next_running.cost
            self._start(next_running, crash_count, permit)
        self.on_free_slot()

    def _not_busy(self, running: RunningAttempt) -> None:
        self._busy.discard(running)
        if not self._busy:
            self._idle.set()
