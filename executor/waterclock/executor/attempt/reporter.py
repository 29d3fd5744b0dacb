"""Writes what happened into the log, and lets go of the work once the log has it.

Tells the log how far handlers say they have come: seldom, and not of attempts that will soon be over anyway.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.frames import FrameWriter
from waterclock.core.runtime.clock import now_us
from waterclock.executor.attempt.outcome import OutcomeEvent
from waterclock.executor.attempt.tracing import tracer
from waterclock.executor.in_flight import InHand, Key, Running
from waterclock.executor.metrics import Tally
from waterclock.proto import names
from waterclock.proto.events import Instant, OutcomeRejected, RunReported, RunsMissed, RunStarted

_EVERY_SECONDS = 2.0
_YOUNG = 1_000_000
_MOST = 100
"""In one round, of all attempts together; the others come next."""

Append = Callable[[int, RunReported], object]


class ProgressReports:
    def __init__(self, in_hand: InHand, append: Append, partition_of: Callable[[str], int]) -> None:
        self._in_hand = in_hand
        self._append = append
        self._partition_of = partition_of

    async def tell_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            self.tell(now_us())

    def tell(self, now: Instant) -> None:
        """Report what is news; first of those that have not been reported yet."""
        news = [running for running in self._in_hand if _has_news(running, now)]
        for running in sorted(news, key=_told_before)[:_MOST]:
            attempt, progress = running.attempt, running.progress
            assert attempt is not None
            assert progress is not None
            running.told = progress
            event = RunReported(
                run_id=running.item.run_id,
                at=now,
                attempt=running.item.attempt,
                executor_id=attempt.executor_id,
                done=progress.done,
                note=progress.note,
            )
            self._append(self._partition_of(event.run_id), event)


def _has_news(running: Running, now: Instant) -> bool:
    """An attempt that has ended says so itself; a young one has not even said that it started."""
    return (
        running.progress is not None
        and running.progress != running.told
        and running.attempt is not None
        and running.attempt.started < now - _YOUNG
        and running.task is not None
        and not running.task.done()
    )


def _told_before(running: Running) -> bool:
    return running.told is not None


_SILENT_SECONDS = 0.025
_REMEMBERED = 10_000

LetGo = Callable[[Running], None]
Last = OutcomeEvent | OutcomeRejected | RunsMissed
"""The last an executor says of an attempt."""


class Reporter:
    def __init__(
        self, frames: FrameWriter, in_hand: InHand, tally: Tally, *, executor_id: str, partitions: int
    ) -> None:
        self._frames = frames
        self._tally = tally
        self._trace = tracer()
        self._in_hand = in_hand
        self._executor_id = executor_id
        self._partitions = partitions
        self._silent: dict[Key, Running] = {}
        """Started, but too short a time ago to say so: most attempts end first, and their outcome says it too."""
        self._timer: asyncio.TimerHandle | None = None
        self._ended: OrderedDict[Key, None] = OrderedDict()

    def partition_of(self, run_id: str) -> int:
        return names.partition_of(run_id, self._partitions)

    def started(self, running: Running) -> None:
        self._silent[running.key] = running
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SILENT_SECONDS, self._say_all_started)

    def ended(self, running: Running, event: Last, let_go: LetGo | None) -> None:
        """`let_go` is called when the log has acknowledged the outcome; None: the work is somebody else's by now."""
        self._silent.pop(running.key, None)
        self._tally.ended(running.item, event, running.pulled)
        if self._trace is not None:
            self._trace(running.item, event, running.pulled)
        is_end = not isinstance(event, OutcomeRejected)
        self._frames.post(
            self.partition_of(event.run_id), event, partial(self._acknowledged, running, let_go, is_end)
        )

    def knows_end_of(self, key: Key) -> bool:
        """Whether the log has an outcome of this attempt from us, as far as we remember."""
        return key in self._ended

    def _acknowledged(
        self, running: Running, let_go: LetGo | None, is_end: bool, result: int | LogError
    ) -> None:
        self._in_hand.remove(running)
        if isinstance(result, LogError) or not is_end:
            return  # nothing is settled; the delivery comes back to somebody, who will ask the owner
        self._ended[running.key] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        if let_go is not None:
            let_go(running)

    def _say_all_started(self) -> None:
        self._timer = None
        long_ago = now_us() - int(_SILENT_SECONDS * 1_000_000)
        for key, running in list(self._silent.items()):
            assert running.attempt is not None
            if running.attempt.started > long_ago:
                break
            del self._silent[key]
            self._say_started(running)
        if self._silent:
            self._timer = asyncio.get_running_loop().call_later(_SILENT_SECONDS, self._say_all_started)

    def _say_started(self, running: Running) -> None:
        attempt = running.attempt
        assert attempt is not None
        self._frames.append(
            self.partition_of(running.item.run_id),
            RunStarted(
                run_id=running.item.run_id,
                at=attempt.started,
                attempt=running.item.attempt,
                executor_id=self._executor_id,
                fencing_token=attempt.fencing_token,
            ),
        )
