"""Wall time as the events carry it: integer microseconds since the epoch.

All processes use one time, the log's. A process reads its own clock, which is nearly always right. When that is set
anew (by hand, or after a sleep of the machine) it continues by the monotonic clock until the log has been asked
(`adjust`), and when its own differs from the log's by more than a second, it uses the log's.
"""

import logging
import time
from typing import Protocol

TOLERATED = 1_000_000
"""A difference that is tolerated, in microseconds: networks and disks take their time to answer."""
_STEP = 500_000
"""A wall clock that moved this much against the monotonic one was set, and did not merely drift."""

_log = logging.getLogger(__name__)

_wall_ns = time.time_ns
_monotonic_ns = time.monotonic_ns


class Clock(Protocol):
    """For code whose tests bring their own time."""

    def now_us(self) -> int: ...


class SystemClock:
    def now_us(self) -> int:
        return now_us()


class AdjustedClock:
    """The wall clock, unless it was set anew or is known to be wrong."""

    def __init__(self) -> None:
        self._ahead = _wall_ns() // 1000 - _monotonic_ns() // 1000
        """How far the right wall time is ahead of the monotonic clock."""
        self._wrong = False

    def now_us(self) -> int:
        wall, monotonic = _wall_ns() // 1000, _monotonic_ns() // 1000
        ahead = wall - monotonic
        if -_STEP < ahead - self._ahead < _STEP:
            return wall
        return monotonic + self._ahead

    def adjust(self, log_time: int, uncertainty: int) -> None:
        """It was `log_time` by the log a moment ago, with this uncertainty; both in microseconds."""
        wall, monotonic = _wall_ns() // 1000, _monotonic_ns() // 1000
        tolerated = TOLERATED + uncertainty
        if abs(log_time - wall) <= tolerated:
            if self._wrong:
                _log.warning("this machine's clock is right again")
            self._wrong = False
            self._ahead = wall - monotonic
        elif not self._wrong or abs(log_time - monotonic - self._ahead) > tolerated:
            _log.error(
                "this machine's clock is wrong: using the log's",
                extra={"ahead_seconds": round((wall - log_time) / 1e6, 1)},
            )
            self._wrong = True
            self._ahead = log_time - monotonic


_clock = AdjustedClock()
now_us = _clock.now_us
adjust = _clock.adjust
