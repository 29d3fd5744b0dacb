"""Tells JetStream that what we hold is alive, and knows when we were silent for too long."""

import asyncio
import time
from collections.abc import Callable

from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.in_flight import InHand, Running


class KeepAlive:
    """After a silence longer than the ack deadline (we were stopped, or the server was away) another executor may
    hold what we hold. An ack of ours would then remove the work from under it. So deliveries from before a silence are
    not acked; whoever gets such a one next learns from the log that it is over.
    """

    def __init__(
        self, in_hand: InHand, acks: Acks, *, ack_wait: float, connected: Callable[[], bool]
    ) -> None:
        self._in_hand = in_hand
        self._acks = acks
        self._ack_wait = ack_wait
        self._connected = connected
        self._last = time.monotonic()
        self._silences = 0

    async def run(self) -> None:
        """A task of its own: no attempt, however busy, stands between a delivery and its renewal."""
        while True:
            await asyncio.sleep(self._ack_wait * 0.3)
            if not self._connected():
                continue
            self._listen()
            self._last = time.monotonic()
            for running in self._in_hand:
                self._acks.progress(running.delivery)

    def hold(self, running: Running) -> None:
        """It was delivered just now."""
        self._listen()
        running.silences = self._silences

    def let_go(self, running: Running) -> None:
        """Its outcome is in the log: take the work out of the queue, if it is certainly still ours."""
        self._listen()
        if running.silences == self._silences:
            self._acks.ack(running.delivery)

    def _listen(self) -> None:
        if time.monotonic() - self._last > self._ack_wait:
            self._silences += 1
            self._last = time.monotonic()
