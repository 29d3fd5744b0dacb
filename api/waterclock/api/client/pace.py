"""What a client does when the system is behind: it waits as long as it is told to, and says so once."""

import random
import time
from collections.abc import Callable

from waterclock.api.errors import Saturated

_SAY_AGAIN_SECONDS = 60.0
_SPREAD = 1.25
"""Many who were refused together do not come back together."""

_SHORTEST = 0.5
_LONGEST = 60.0
"""No service asks for less or for more. What does is broken: who waits as long as it takes is not to wait for years,
nor to ask without a pause."""

SATURATED_PATIENCE = 60.0
AS_LONG_AS_IT_TAKES = float("inf")


class Pace:
    def __init__(self, announce: Callable[[str], None], patience: float = SATURATED_PATIENCE) -> None:
        self._announce = announce
        self._patience = patience
        self._said_at: float | None = None

    def wait_seconds(self, refused: Saturated, waited: float, patience: float | None = None) -> float:
        """How long to wait before the same request is sent again. Raises the refusal when that would be too long in
        all. `patience`: if this call's is another than usual."""
        told = 1.0 if refused.retry_after is None else min(max(refused.retry_after, _SHORTEST), _LONGEST)
        pause = told * random.uniform(1.0, _SPREAD)
        if waited + pause > (self._patience if patience is None else patience):
            raise refused
        now = time.monotonic()
        if self._said_at is None or now - self._said_at > _SAY_AGAIN_SECONDS:
            self._said_at = now
            self._announce(refused.why)
        return pause
