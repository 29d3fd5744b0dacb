"""Step five, report: writes what happened to attempts into the log, and acks the work once the log has the outcome.

The outcomes of a parcel are reported together: when all of it has ended, or a moment after the first.
An attempt is reported as started only after 25 ms. Most end before that, and their outcome says when they started.
Progress is reported seldom, and not of attempts that have just begun.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.frame_writer import FrameWriter
from waterclock.core.runtime.clock import now_us
from waterclock.executor.attempt.tracing import tracer
from waterclock.executor.attempt_record import FinalEvent
from waterclock.executor.in_flight import InFlight, Receipt, RunningAttempt, WorkKey
from waterclock.executor.metrics import ExecutorMetrics
from waterclock.proto import names
from waterclock.proto.events import Instant, RunReported, RunStarted

_START_DELAY_SECONDS = 0.025
_REMEMBERED_OUTCOMES = 10_000
"""At least; up to twice as many."""

_PROGRESS_SECONDS = 2.0
_PROGRESS_MIN_AGE = 1_000_000
_PROGRESS_BATCH = 100
"""In one round, of all attempts together; the others follow in the next."""

_PARCEL_SECONDS = 0.01
"""How long an outcome of a parcel waits for the others."""

Ack = Callable[[Receipt, int], None]
AppendProgress = Callable[[int, RunReported], object]


class Reporter:
    def __init__(
        self,
        frames: FrameWriter,
        in_flight: InFlight,
        metrics: ExecutorMetrics,
        *,
        executor_id: str,
        partitions: int,
    ) -> None:
        self._frames = frames
        self._metrics = metrics
        self._trace = tracer()
        self._in_flight = in_flight
        self._executor_id = executor_id
        self._partitions = partitions
        self.on_lasting: Callable[[RunningAttempt], None] = lambda running: None
        """Told of each attempt that has not ended a moment after it began."""
        self._begun: list[Receipt] = []
        """Of which something has begun, and its start may have to be reported."""
        self._gathering: dict[Receipt, Ack] = {}
        """Parcels of which something has ended and is not reported."""
        self._starts_timer: asyncio.TimerHandle | None = None
        self._parcels_timer: asyncio.TimerHandle | None = None
        self._reported_lately: set[WorkKey] = set()
        self._reported_before: set[WorkKey] = set()
        """When so many are remembered they become those before, and those before are forgotten."""

    def partition_of(self, run_id: str) -> int:
        return names.partition_of(run_id, self._partitions)

    def report_start(self, running: RunningAttempt) -> None:
        """In a while, unless it ends before."""
        receipt = running.receipt
        if receipt.has_unreported_start:
            return
        receipt.has_unreported_start = True
        self._begun.append(receipt)
        if self._starts_timer is None:
            self._report_starts_later()

    async def record_start(self, running: RunningAttempt) -> None:
        """Returns when the log has the start. Raises LogError."""
        await self._append_start(running)

    def report_outcome(self, running: RunningAttempt, event: FinalEvent, ack: Ack | None) -> None:
        """`ack` is called when the log has acknowledged the outcome; None: the work belongs to another by now."""
        running.outcome = event
        receipt = running.receipt
        if not receipt.in_parcel or ack is None:
            self._report(receipt, [running], ack)
            return
        ended = receipt.ended
        ended.append(running)
        if len(ended) == len(receipt.running):
            self._report_parcel(receipt, ack)
        elif len(ended) == 1:
            self._gathering[receipt] = ack
            if self._parcels_timer is None:
                loop = asyncio.get_running_loop()
                self._parcels_timer = loop.call_later(_PARCEL_SECONDS, self._report_gathered)

    def report_rest(self) -> None:
        """Nothing more will end: report what waits for the others of its parcel."""
        for receipt, ack in list(self._gathering.items()):
            self._report_parcel(receipt, ack)

    def _report_gathered(self) -> None:
        self._parcels_timer = None
        self.report_rest()

    def _report_parcel(self, receipt: Receipt, ack: Ack) -> None:
        """What has ended of it: in one frame, with one acknowledgement. It is all of one partition."""
        self._gathering.pop(receipt, None)
        ended, receipt.ended = receipt.ended, []
        self._report(receipt, ended, ack)

    def _report(self, receipt: Receipt, ended: list[RunningAttempt], ack: Ack | None) -> None:
        """They are all of one partition. Only their keys are kept: much of what is held until the log has answered is
        cold when it is freed."""
        events = [running.outcome for running in ended if running.outcome is not None]
        self._metrics.count_outcomes(ended, receipt.pulled)
        if self._trace is not None:
            for running, event in zip(ended, events, strict=True):
                self._trace(running.item, event, receipt.pulled)
        self._in_flight.reported(receipt, ended)
        if not receipt.running and self._begun == [receipt]:
            receipt.has_unreported_start = False
            self._forget_starts()
        keys = [running.key for running in ended]
        partition = self.partition_of(keys[0][0])
        self._frames.submit_all(partition, events, partial(self._acknowledged, keys, receipt, ack))

    def has_reported(self, key: WorkKey) -> bool:
        """Whether the log has an outcome of this attempt from us, as far as we remember."""
        return key in self._reported_lately or key in self._reported_before

    def has_reported_none_of(self, keys: Sequence[WorkKey]) -> bool:
        return self._reported_lately.isdisjoint(keys) and self._reported_before.isdisjoint(keys)

    def _acknowledged(
        self, keys: Sequence[WorkKey], receipt: Receipt, ack: Ack | None, result: int | LogError
    ) -> None:
        self._in_flight.acknowledged(keys)
        if ack is None or isinstance(result, LogError):
            return  # the delivery comes back to some executor, which will ask the owner
        self._reported_lately.update(keys)
        if len(self._reported_lately) >= _REMEMBERED_OUTCOMES:
            self._reported_before, self._reported_lately = self._reported_lately, set()
        ack(receipt, len(keys))

    def _report_starts_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._starts_timer = loop.call_later(_START_DELAY_SECONDS, self._report_starts)

    def _forget_starts(self) -> None:
        """The only one that had begun has ended: at low load nearly all do, and the timer would wake us for nothing."""
        self._begun.clear()
        if self._starts_timer is not None:
            self._starts_timer.cancel()
            self._starts_timer = None

    def _report_starts(self) -> None:
        """Of what began long enough ago and has not ended; for the rest it looks again."""
        self._starts_timer = None
        newest = now_us() - int(_START_DELAY_SECONDS * 1_000_000)
        begun, self._begun = self._begun, []
        for receipt in begun:
            receipt.has_unreported_start = False
            for running in receipt.running:
                if not _has_unreported_start(running):
                    continue
                assert running.attempt is not None
                if running.attempt.started <= newest:
                    self._append_start(running)
                    self.on_lasting(running)
                elif not receipt.has_unreported_start:
                    receipt.has_unreported_start = True
                    self._begun.append(receipt)
        if self._begun:
            self._report_starts_later()

    def _append_start(self, running: RunningAttempt) -> "asyncio.Future[int]":
        attempt = running.attempt
        assert attempt is not None
        running.is_start_reported = True
        return self._frames.append(
            self.partition_of(running.item.run_id),
            RunStarted(
                run_id=running.item.run_id,
                at=attempt.started,
                attempt=running.item.attempt,
                executor_id=self._executor_id,
                fencing_token=attempt.fencing_token,
            ),
        )


def _has_unreported_start(running: RunningAttempt) -> bool:
    return running.attempt is not None and not running.is_start_reported and running.outcome is None


class ProgressReports:
    """Copies what handlers say about their progress into the log, every other second."""

    def __init__(
        self, in_flight: InFlight, append: AppendProgress, partition_of: Callable[[str], int]
    ) -> None:
        self._in_flight = in_flight
        self._append = append
        self._partition_of = partition_of

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            self.report(now_us())

    def report(self, now: Instant) -> None:
        """Those that were never reported go first."""
        changed = [running for running in self._in_flight if _has_unreported_progress(running, now)]
        changed.sort(key=lambda running: running.reported_progress is not None)
        for running in changed[:_PROGRESS_BATCH]:
            attempt, progress = running.attempt, running.progress
            assert attempt is not None
            assert progress is not None
            running.reported_progress = progress
            event = RunReported(
                run_id=running.item.run_id,
                at=now,
                attempt=running.item.attempt,
                executor_id=attempt.executor_id,
                done=progress.done,
                note=progress.note,
            )
            self._append(self._partition_of(event.run_id), event)


def _has_unreported_progress(running: RunningAttempt, now: Instant) -> bool:
    """Not of an attempt that has ended, whose outcome follows; nor of a young one, whose start may be unreported."""
    return (
        running.progress is not None
        and running.progress != running.reported_progress
        and running.attempt is not None
        and running.attempt.started < now - _PROGRESS_MIN_AGE
        and running.task is not None
        and not running.task.done()
    )
