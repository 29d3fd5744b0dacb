"""Wall time as the events carry it: integer microseconds since the epoch."""

import time
from typing import Protocol


class Clock(Protocol):
    """For code whose tests bring their own time."""

    def now_us(self) -> int: ...


class SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000


def now_us() -> int:
    return time.time_ns() // 1000
