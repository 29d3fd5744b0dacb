"""Wall time as the events carry it: integer microseconds since the epoch.

All processes go by one clock, the log's. A process reads its own, which is right nearly always; but when that is set
anew (by hand, or after a sleep) it goes on by the monotonic clock until the log has been asked (`agree`), and
when it differs from the log's by more than a second it goes by the log's.
"""

import logging
import time
from typing import Protocol

TOLERATED = 1_000_000
"""A difference that is put up with: networks and discs take their time to answer."""
_STEP = 500_000
"""A wall clock that moved this much against the monotonic one was set, and did not merely drift."""

_log = logging.getLogger(__name__)


class Clock(Protocol):
    """For code whose tests bring their own time."""

    def now_us(self) -> int: ...


class SystemClock:
    def now_us(self) -> int:
        return now_us()


class Timepiece:
    """`apart`: how far the wall clock is believed to be ahead of the monotonic one."""

    def __init__(self) -> None:
        self._apart = _wall() - _monotonic()
        self._wrong = False

    def now_us(self) -> int:
        wall, monotonic = _wall(), _monotonic()
        apart = wall - monotonic
        if -_STEP < apart - self._apart < _STEP:
            return wall
        return monotonic + self._apart

    def agree(self, theirs: int, uncertain: int) -> None:
        """The log said that it was `theirs` just now, give or take `uncertain`."""
        wall, monotonic = _wall(), _monotonic()
        tolerated = TOLERATED + uncertain
        if abs(theirs - wall) <= tolerated:
            if self._wrong:
                _log.warning("this machine's clock is right again")
            self._wrong = False
            self._apart = wall - monotonic
        elif not self._wrong or abs(theirs - monotonic - self._apart) > tolerated:
            _log.error(
                "this machine's clock is wrong: going by the log's",
                extra={"ahead_seconds": round((wall - theirs) / 1e6, 1)},
            )
            self._wrong = True
            self._apart = theirs - monotonic


def _wall() -> int:
    return time.time_ns() // 1000


def _monotonic() -> int:
    return time.monotonic_ns() // 1000


_timepiece = Timepiece()
now_us = _timepiece.now_us
agree = _timepiece.agree
