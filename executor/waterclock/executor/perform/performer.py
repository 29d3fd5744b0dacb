"""The time an attempt may take."""

import asyncio
from typing import Protocol

from waterclock.executor.attempt_record import Attempt, Ending
from waterclock.executor.in_flight import Cause, Running


def start_deadline(running: Running, seconds: float, grace: float) -> asyncio.TimerHandle:
    """Stop the attempt after so many seconds of it. Cancel the handle when it has ended by itself."""
    cause = Cause(kind="timed_out", reason=f"timed out after {seconds:g} s", grace=grace)
    return asyncio.get_running_loop().call_later(seconds, running.stop, cause)


class Performer(Protocol):
    """Does what an attempt is for. Returns how it ended; when stopped, only once nothing of it is left."""

    async def perform(self, attempt: Attempt, running: Running) -> Ending: ...
