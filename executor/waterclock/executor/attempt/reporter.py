"""Step five, report: writes what happened to attempts into the log, and acks the work once the log has the outcome.

The outcomes of a parcel are reported together: when all of it has ended, or a moment after the first.
An attempt is reported as started only after 25 ms. Most end before that, and their outcome says when they started.
Progress is reported seldom, and not of attempts that have just begun.
"""

import asyncio
from collections import OrderedDict
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
        self._unreported_starts: dict[WorkKey, RunningAttempt] = {}
        """Oldest first."""
        self._gathering: dict[Receipt, Ack] = {}
        """Parcels of which something has ended and is not reported."""
        self._timer: asyncio.TimerHandle | None = None
        self._reported_outcomes: OrderedDict[WorkKey, None] = OrderedDict()

    def partition_of(self, run_id: str) -> int:
        return names.partition_of(run_id, self._partitions)

    def report_start(self, running: RunningAttempt) -> None:
        self._unreported_starts[running.key] = running
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_START_DELAY_SECONDS, self._append_starts)

    async def record_start(self, running: RunningAttempt) -> None:
        """Returns when the log has the start. Raises LogError."""
        await self._append_start(running)

    def report_outcome(self, running: RunningAttempt, event: FinalEvent, ack: Ack | None) -> None:
        """`ack` is called when the log has acknowledged the outcome; None: the work belongs to another by now."""
        self._unreported_starts.pop(running.key, None)
        receipt = running.receipt
        if receipt.in_parcel and ack is not None:
            self._collect(running, event, ack)
            return
        self._metrics.count_outcome(running.item, event, receipt.pulled)
        if self._trace is not None:
            self._trace(running.item, event, receipt.pulled)
        self._frames.submit(
            self.partition_of(event.run_id), event, partial(self._acknowledged, [running], receipt, ack)
        )

    def _collect(self, running: RunningAttempt, event: FinalEvent, ack: Ack) -> None:
        outcomes = running.receipt.outcomes
        outcomes.append((running, event))
        if len(outcomes) == running.receipt.attempts:
            self._report_parcel(running.receipt, ack)
        elif len(outcomes) == 1:
            self._gathering[running.receipt] = ack
            loop = asyncio.get_running_loop()
            loop.call_later(_PARCEL_SECONDS, self._report_parcel, running.receipt, ack)

    def report_rest(self) -> None:
        """Nothing more will end: report what waits for the others of its parcel."""
        for receipt, ack in list(self._gathering.items()):
            self._report_parcel(receipt, ack)

    def _report_parcel(self, receipt: Receipt, ack: Ack) -> None:
        """What has ended of it: in one frame, with one acknowledgement. It is all of one partition."""
        self._gathering.pop(receipt, None)
        outcomes, receipt.outcomes = receipt.outcomes, []
        if not outcomes:
            return
        self._metrics.count_outcomes(outcomes, receipt.pulled)
        if self._trace is not None:
            for running, event in outcomes:
                self._trace(running.item, event, receipt.pulled)
        runnings = [running for running, _ in outcomes]
        events = [event for _, event in outcomes]
        partition = self.partition_of(events[0].run_id)
        self._frames.submit_all(partition, events, partial(self._acknowledged, runnings, receipt, ack))

    def has_reported(self, key: WorkKey) -> bool:
        """Whether the log has an outcome of this attempt from us, as far as we remember."""
        return key in self._reported_outcomes

    def _acknowledged(
        self, runnings: Sequence[RunningAttempt], receipt: Receipt, ack: Ack | None, result: int | LogError
    ) -> None:
        for running in runnings:
            self._in_flight.remove(running)
        if ack is None or isinstance(result, LogError):
            return  # the delivery comes back to some executor, which will ask the owner
        reported = self._reported_outcomes
        for running in runnings:
            reported[running.key] = None
        while len(reported) > _REMEMBERED_OUTCOMES:
            reported.popitem(last=False)
        ack(receipt, len(runnings))

    def _append_starts(self) -> None:
        self._timer = None
        newest = now_us() - int(_START_DELAY_SECONDS * 1_000_000)
        for key, running in list(self._unreported_starts.items()):
            assert running.attempt is not None
            if running.attempt.started > newest:
                break
            del self._unreported_starts[key]
            self._append_start(running)
        if self._unreported_starts:
            self._timer = asyncio.get_running_loop().call_later(_START_DELAY_SECONDS, self._append_starts)

    def _append_start(self, running: RunningAttempt) -> "asyncio.Future[int]":
        attempt = running.attempt
        assert attempt is not None
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
