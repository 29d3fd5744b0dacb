from typing import Protocol

from waterclock.executor.attempt.ending import Ending
from waterclock.executor.attempt.in_hand import Running
from waterclock.executor.attempt.record import Attempt


class Performer(Protocol):
    """Does what an attempt is for. Returns how it ended; when stopped, only once nothing of it is left."""

    async def perform(self, attempt: Attempt, running: Running) -> Ending: ...
