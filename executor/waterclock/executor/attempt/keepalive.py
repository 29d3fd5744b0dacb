"""Renews the deliveries we hold, and notices when it could not for longer than the ack deadline.

After such a gap (we were suspended, or the server was away) another executor may hold what we hold. An ack of ours
would then remove the work from under it. So deliveries from before a gap are not acked; whoever gets such a one next
learns from the log that it is over. `delivery_epoch` counts the gaps.
"""

import asyncio
import time
from collections.abc import Callable

from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.in_flight import InFlight, RunningAttempt


class KeepAlive:
    def __init__(
        self, in_flight: InFlight, acks: Acks, *, ack_wait: float, connected: Callable[[], bool]
    ) -> None:
        self._in_flight = in_flight
        self._acks = acks
        self._ack_wait = ack_wait
        self._connected = connected
        self._last = time.monotonic()
        self._epoch = 0

    async def run(self) -> None:
        """A task of its own: no attempt, however busy, delays a renewal."""
        while True:
            await asyncio.sleep(self._ack_wait * 0.3)
            if not self._connected():
                continue
            self._notice_gap()
            self._last = time.monotonic()
            for running in self._in_flight:
                self._acks.progress(running.delivery)

    def delivered(self, running: RunningAttempt) -> None:
        """Its delivery has just arrived."""
        self._notice_gap()
        running.delivery_epoch = self._epoch

    def ack(self, running: RunningAttempt) -> None:
        """Its outcome is in the log: take the work out of the queue, if it is certainly still ours."""
        self._notice_gap()
        if running.delivery_epoch == self._epoch:
            self._acks.ack(running.delivery)

    def _notice_gap(self) -> None:
        if time.monotonic() - self._last > self._ack_wait:
            self._epoch += 1
            self._last = time.monotonic()
