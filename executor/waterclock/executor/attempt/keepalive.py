"""Renews the deliveries we hold, and notices when it could not for longer than the ack deadline.

After such a gap (we were suspended, or the server was away) another executor may hold what we hold. An ack of ours
would then remove the work from under it. So deliveries from before a gap are not acked; whoever gets such a one next
learns from the log that it is over. A receipt's `epoch` counts the gaps.

An ack waits a moment for the next outcome, and leaves in the same write: by itself it would wake the server once more
for each run, and a queue that it leaves empty costs the server a new file. Nothing hangs on it: the log has the
outcome.
"""

import asyncio
import time
from collections.abc import Callable

from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.in_flight import InFlight, Receipt

_ACK_SECONDS = 0.1
"""How long an ack waits for the next outcome, at most."""


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
        self._finished: list[Receipt] = []
        """To be acked."""
        self._ack_timer: asyncio.TimerHandle | None = None

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
        if receipt.acknowledged >= receipt.attempts:
            self._finished.append(receipt)
            if self._ack_timer is None:
                loop = asyncio.get_running_loop()
                self._ack_timer = loop.call_later(_ACK_SECONDS, self.send_acks)

    def send_acks(self) -> None:
        """Those that wait."""
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        finished, self._finished = self._finished, []
        for receipt in finished:
            if self.is_ours(receipt):
                self._acks.ack(receipt.delivery)

    def _notice_gap(self) -> None:
        if time.monotonic() - self._last > self._ack_wait:
            self._epoch += 1
            self._last = time.monotonic()
