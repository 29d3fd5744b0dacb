"""Whether so much is folded just now that whatever can wait should: what one deletes or counts takes Postgres from those
who fold, and in a flood of runs that is seconds of a core."""

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
