"""Whether so much is folded just now that whatever can wait should: to delete and to count takes Postgres from those
who fold, in a flood of runs for seconds."""

import time
from collections.abc import Callable

_EVENTS_A_SECOND = 3_000.0


class Flood:
    """`folded`: how many events have been, up to now."""

    def __init__(self, folded: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._folded = folded
        self._clock = clock
        self._seen = (clock(), folded())

    def is_on(self) -> bool:
        """Whether many events were folded since it was last asked."""
        (before, had), self._seen = self._seen, (self._clock(), self._folded())
        now, have = self._seen
        return have - had > _EVENTS_A_SECOND * (now - before)
