"""Step one, resolve: what becomes of each delivery, and when it gets a slot.

A delivery of an attempt that we run already replaces the old one. One whose outcome we wrote, or that was stopped
before it came, is acked. One that is not certainly the first is claimed with its owner. A run with a concurrency or
rate key waits for its turn. What is left gets slots as soon as enough are free, and its task runs the attempt. Of a
parcel what gets none within a moment is given back, so that nothing waits behind a long attempt that came with it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import assert_never

from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.messages import Delivery
from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.attempt.recalls import Recalls
from waterclock.executor.attempt.reporter import Reporter
from waterclock.executor.attempt.runner import Runner
from waterclock.executor.attempt.stop_requests import StopRequests
from waterclock.executor.attempt_record import Returned
from waterclock.executor.in_flight import (
    InFlight,
    Receipt,
    RunningAttempt,
    StopCause,
    WorkKey,
    result_of_stop,
    work_key,
)
from waterclock.executor.intake.redelivery import Claims
from waterclock.executor.intake.slots import Slots
from waterclock.executor.limits.admission import Admission, is_limited
from waterclock.executor.limits.concurrency import Permit
from waterclock.proto import names
from waterclock.proto.work import WorkItem

_log = logging.getLogger(__name__)

_CLAIM_AGAIN_SECONDS = 1.0
_LAST_GRACE_SECONDS = 1.0
_UNSTARTED_SECONDS = 0.2
"""What came in a parcel is worth a few milliseconds of a slot. What has none after so long waits for something else."""
_RECALLED_LONG_AGO = 60 * SECOND
"""A recall is kept for longer, but not for ever: after so long in the queue the owner is asked."""
_STOPPED = "its executor was stopped"
_NO_SLOT = "its executor had no slot for it"


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
        recalls: Recalls,
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
        self._recalls = recalls
        self._claims = claims
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[RunningAttempt, int, Permit | None]] = deque()
        """Resolved, but costing more slots than are free; each with its crash count and permit."""
        self._busy: set[RunningAttempt] = set()
        """Being resolved or performed: each has a task."""
        self._idle = asyncio.Event()

    def dispatch(self, items: Sequence[WorkItem], delivery: Delivery) -> None:
        """Take what a message brought: one attempt, or those of a parcel."""
        receipt = Receipt(delivery, in_parcel=names.is_parcel(delivery.subject))
        keys = [work_key(item) for item in items]
        if (known := self._in_flight.find(keys)) is not None:
            self._adopt(known, delivery)
            return
        taken = [*zip(items, keys, strict=True)]
        if self._may_be_over(keys):
            taken = [(item, key) for item, key in taken if not self._is_over(item, key, receipt.in_parcel)]
            if not taken:
                self._acks.ack(delivery)
                return
        cost_of = self.slots.cost_of
        runnings = [RunningAttempt(item, key, receipt, cost_of(item.spec.slots)) for item, key in taken]
        receipt.attempts = len(runnings)
        receipt.running = runnings
        self._keepalive.delivered(receipt)
        self._in_flight.add(receipt)
        if self._must_claim(items[0], receipt):
            self._resolve_later(runnings, must_claim=True)
            return
        for running in runnings:
            if is_limited(running.item.spec):
                self._resolve_later([running], must_claim=False)
            else:
                self._give_slots(running, running.item.crash_count, None)

    def _adopt(self, receipt: Receipt, delivery: Delivery) -> None:
        """We have it already. What we no longer have of a parcel was not acked: it comes back once more."""
        receipt.delivery = delivery
        self._keepalive.delivered(receipt)

    def _may_be_over(self, keys: Sequence[WorkKey]) -> bool:
        """Whether to ask for each of them. Mostly not: nothing was cancelled, and nothing comes twice."""
        return (
            self._stop_requests.came_early
            or self._recalls.are_any
            or not self._reporter.has_reported_none_of(keys)
        )

    def _is_over(self, item: WorkItem, key: WorkKey, in_parcel: bool) -> bool:
        return (
            self._reporter.has_reported(key)
            or self._stop_requests.came_before(item)
            or (in_parcel and self._recalls.has(item))
        )

    def _must_claim(self, item: WorkItem, receipt: Receipt) -> bool:
        """Whether its owner is asked first. Of a parcel also when we may not know all that was recalled from it."""
        if receipt.delivery.delivered > 1 or item.recovered:
            return True
        waited = receipt.pulled - item.queued
        return receipt.in_parcel and (not self._recalls.are_known or waited > _RECALLED_LONG_AGO)

    def _resolve_later(self, runnings: Sequence[RunningAttempt], *, must_claim: bool) -> None:
        task = self._loop.create_task(self._resolve(runnings, must_claim))
        for running in runnings:
            self._busy.add(running)
            running.task = task

    async def drain(self, grace: float) -> None:
        """Finish what was begun within the grace, then return the rest to the queue; of a parcel at once what was not
        begun."""
        self._return_unstarted(lambda receipt: True, _STOPPED)
        try:
            async with asyncio.timeout(grace):
                await self._until_idle()
        except TimeoutError:
            pass
        cause = StopCause(kind="returned", reason=_STOPPED, grace=_LAST_GRACE_SECONDS)
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

    async def _resolve(self, runnings: Sequence[RunningAttempt], must_claim: bool) -> None:
        """Claim what one message brought and wait for its limits, as far as it needs that. It has no slot meanwhile."""
        admitted: list[tuple[RunningAttempt, int, Permit | None]] = []
        try:
            may_run = (
                await self._claim(runnings) if must_claim else [(runnings[0], runnings[0].item.crash_count)]
            )
            for running, crash_count in may_run:
                permit = None
                if is_limited(running.item.spec):
                    answer = await self._admission.wait(running)
                    if answer is not None and not isinstance(answer, Permit):
                        self._runner.finish_unperformed(running, crash_count, answer)
                        continue
                    permit = answer
                admitted.append((running, crash_count, permit))
        except Exception:
            for running in runnings:
                self._in_flight.drop(running)  # so that it is delivered again
            _log.exception("an attempt was dropped", extra={"run_id": runnings[0].item.run_id})
            return
        finally:
            for running in runnings:
                self._not_busy(running)
        for running, crash_count, permit in admitted:
            self._give_slots(running, crash_count, permit)

    async def _claim(self, runnings: Sequence[RunningAttempt]) -> list[tuple[RunningAttempt, int]]:
        """Those that may run, each with its crash count."""
        receipt = runnings[0].receipt
        items = [running.item for running in runnings]
        replies = await self._claims.ask(items, receipt.delivery.delivered, in_parcel=receipt.in_parcel)
        may_run = []
        waits = False
        for running, reply in zip(runnings, replies, strict=True):
            match reply.verdict:
                case "run":
                    running.claim = reply
                    may_run.append((running, reply.crash_count))
                case "drop":
                    self._in_flight.drop(running)
                    self._keepalive.ack(receipt)
                case "wait":
                    self._in_flight.drop(running)
                    waits = True
                case _:
                    assert_never(reply.verdict)
        if waits and not may_run:
            self._acks.nak(receipt.delivery, _CLAIM_AGAIN_SECONDS)
        return may_run

    def _give_slots(self, running: RunningAttempt, crash_count: int, permit: Permit | None) -> None:
        slots = self.slots
        if not self._waiting and slots.fits(running.cost):
            self._start(running, crash_count, permit)
            return
        self._waiting.append((running, crash_count, permit))
        slots.promised += running.cost
        receipt = running.receipt
        if receipt.in_parcel and receipt.unstarted is None:
            receipt.unstarted = self._loop.call_later(
                _UNSTARTED_SECONDS, self._return_unstarted, lambda r: r is receipt, _NO_SLOT
            )

    def _return_unstarted(self, chosen: Callable[[Receipt], bool], reason: str) -> None:
        """What came in a parcel and got no slot for a while goes back: the others may be long, or the slots theirs."""
        waiting = list(self._waiting)
        self._waiting.clear()
        for running, crash_count, permit in waiting:
            if running.receipt.in_parcel and chosen(running.receipt):
                self.slots.promised -= running.cost
                self._runner.finish_unperformed(running, crash_count, Returned(reason=reason))
            else:
                self._waiting.append((running, crash_count, permit))
        self.on_free_slot()

    def _start(self, running: RunningAttempt, crash_count: int, permit: Permit | None) -> None:
        self.slots.used += running.cost
        self._busy.add(running)
        running.task = self._loop.create_task(self._runner.body(running, crash_count, permit, self._ended))

    def _ended(self, running: RunningAttempt) -> None:
        self._not_busy(running)
        self._keepalive.send_acks()
        self.slots.used -= running.cost
        if self._waiting:
            self._start_waiting()
        self.on_free_slot()

    def _start_waiting(self) -> None:
        """As many as there are slots for."""
        slots, waiting = self.slots, self._waiting
        while waiting and slots.fits(waiting[0][0].cost):
            following, crash_count, permit = waiting.popleft()
            slots.promised -= following.cost
            if following.receipt.in_parcel and not self._keepalive.is_ours(following.receipt):
                self._in_flight.drop(following)  # somebody else may have it
            else:
                self._start(following, crash_count, permit)

    def _not_busy(self, running: RunningAttempt) -> None:
        self._busy.discard(running)
        if not self._busy:
            self._idle.set()
