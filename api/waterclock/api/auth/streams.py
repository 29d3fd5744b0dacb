"""How many answers without end one caller may follow, so that nobody takes what all share."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from waterclock.api.errors import RateLimited

_RETRY_AFTER = 5.0


class StreamLimits:
    """Of one api. Whoever is known by a token counts by it, wherever they connect from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def one_more(self, actor: str) -> Iterator[None]:
        """Counts as one of the caller's while the context lasts; RateLimited if there are too many."""
        if self._open[actor] >= self._most:
            raise RateLimited.because(
                f"this token follows {self._most} streams already, as many as it may",
                retry_after=_RETRY_AFTER,
            )
        self._open[actor] += 1
        try:
            yield
        finally:
            self._open[actor] -= 1
            if not self._open[actor]:
                del self._open[actor]
