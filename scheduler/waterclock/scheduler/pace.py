"""When a partition does its next pass: as soon as something arrived or is due, and under load on a common stroke.

After a pass that decided much the next one waits for the stroke, a multiple of an interval that all partitions of the
process share: what comes in between shares a frame, and the frames of many partitions are written, answered and read
back together. After one that decided little the interval is short, and a lone fire does not wait for it at all. Nor
does what follows from one that came after a silence, mostly its outcome.
"""

import asyncio
import time
from typing import Self

from waterclock.core.runtime.precise_timer import PreciseTimer

_SILENCE = 0.1
_ALONE = 0.004
_BUSY = 0.02
_CROWDED = 0.04
_MOST_CROWDED = 0.08
_EACH = 0.005
"""Seconds for each partition: a frame costs the server a sync, and all frames of a stroke are written one by one."""


def next_stroke(began: float, decided: int, partitions: int, before: float) -> float:
    """The earliest time of the pass after one that began then and decided so many things, on the monotonic clock.

    `partitions`: how many share the stroke. The more, the longer it is under load: twice the frames for four times the
    partitions. `before`: when the pass before it began.
    """
    if 0 < decided < 3 and began - before > _SILENCE:
        return began
    if decided < 3:
        interval = _ALONE
    elif decided < 15:
        interval = _BUSY
    else:
        interval = min(max(_CROWDED, _EACH * partitions), _MOST_CROWDED)
    return (began // interval + 1) * interval


class Pace:
    """One task waits here, within `with pace`; anybody may wake it. Times are of the monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._woken = False
        self._not_before = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._timer: PreciseTimer | None = None

    def __enter__(self) -> Self:
        self._timer = PreciseTimer(self._end)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._timer is not None
        self._timer.close()
        self._timer = None

    @property
    def is_waiting(self) -> bool:
        """Somebody waits, and has not been woken."""
        return self._waiter is not None and not self._woken

    def wake(self) -> None:
        """Something arrived: the wait ends, or the next one does at once, but for its stroke."""
        if self._woken:
            return
        self._woken = True
        if self._waiter is None or self._timer is None:
            return
        if self._not_before <= time.monotonic():
            self._end()
        else:
            self._timer.set(self._not_before)

    async def wait(self, *, not_before: float, due: float) -> None:
        """Until woken or due, but not before the stroke. Never early: a pass that finds nothing due yet would have to
        wait for the next stroke. Others get their turn in any case."""
        assert self._timer is not None
        self._not_before = not_before
        if self._is_over(due):
            await asyncio.sleep(0)
        while not self._is_over(due):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                self._timer.set(not_before if self._woken else max(due, not_before))
                await self._waiter
            finally:
                self._waiter = None
        self._woken = False

    def _is_over(self, due: float) -> bool:
        now = time.monotonic()
        return now >= self._not_before and (self._woken or now >= due)

    def _end(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
