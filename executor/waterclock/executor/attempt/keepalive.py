"""Renews the deliveries we hold, and notices when it could not for longer than the ack deadline.

After such a gap (we were suspended, or the server was away) another executor may hold what we hold. An ack of ours
would then remove the work from under it. So deliveries from before a gap are not acked; whoever gets such a one next
learns from the log that it is over. A receipt's `epoch` counts the gaps.
"""

import asyncio
import time
from collections.abc import Callable

from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.in_flight import InFlight, Receipt


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
            for receipt in self._in_flight.receipts:
                self._acks.progress(receipt.delivery)

    def delivered(self, receipt: Receipt) -> None:
        """Its delivery has just arrived."""
        self._notice_gap()
        receipt.epoch = self._epoch

    def is_ours(self, receipt: Receipt) -> bool:
        """Whether nobody else can have got it meanwhile."""
        self._notice_gap()
        return receipt.epoch == self._epoch

    def ack(self, receipt: Receipt, attempts: int = 1) -> None:
        """The outcomes of so many of its attempts are in the log. With the last of them the work leaves the queue, if
        it is certainly still ours."""
        receipt.acknowledged += attempts
        if receipt.acknowledged >= receipt.attempts and self.is_ours(receipt):
            self._acks.ack(receipt.delivery)

    def _notice_gap(self) -> None:
        if time.monotonic() - self._last > self._ack_wait:
            self._epoch += 1
            self._last = time.monotonic()
