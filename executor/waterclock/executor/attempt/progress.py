"""Tells the log how far handlers say they have come: seldom, and not of attempts that will soon be over anyway."""

import asyncio
from collections.abc import Callable

from waterclock.core.runtime.clock import now_us
from waterclock.executor.attempt.in_hand import InHand, Running
from waterclock.proto.events import Instant, RunReported

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
