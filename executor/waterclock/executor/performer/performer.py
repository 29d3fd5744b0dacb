from typing import Protocol

from waterclock.executor.attempt import Attempt
from waterclock.executor.ending import Ending
from waterclock.executor.running import Running


class Performer(Protocol):
    """Does what an attempt is for. Returns how it ended; when stopped, only once nothing of it is left."""

    async def perform(self, attempt: Attempt, running: Running) -> Ending: ...
