"""Tells JetStream that what we hold is alive, so that it goes to nobody else."""

import asyncio

from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.running import InHand


async def keep_alive(in_hand: InHand, acks: Acks, *, every: float) -> None:
    """A task of its own: no attempt, however busy, stands between a delivery and its renewal."""
    while True:
        await asyncio.sleep(every)
        for running in in_hand:
            acks.progress(running.delivery)
