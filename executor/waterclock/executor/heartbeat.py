"""This executor among the others: a heartbeat in the control bucket that is gone when we are."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

import msgspec

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import LogError
from waterclock.core.runtime.clock import now_us
from waterclock.executor.context import Progress
from waterclock.executor.in_flight import InHand
from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.proto.verdicts import InstanceState

_log = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_TTL_SECONDS = 4.0
_LISTED = 500


class Membership:
    def __init__(
        self,
        bucket: Bucket,
        in_hand: InHand,
        *,
        executor_id: str,
        tier: str,
        queues: list[str],
        handlers: list[str],
        slots: Callable[[], tuple[int, int]],
    ) -> None:
        self._bucket = bucket
        self._in_hand = in_hand
        self._key = names.member_key("executor", executor_id)
        self._about = ExecutorHeartbeat(
            instance=executor_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            tier=tier,
            queues=queues,
            handlers=handlers,
            started_at=now_us(),
        )
        self._slots = slots
        self.state: InstanceState = "running"

    async def beat_for_ever(self) -> None:
        while True:
            try:
                await self.beat()
            except LogError as error:
                _log.debug("no heartbeat", extra={"error": str(error)})
            await asyncio.sleep(_BEAT_SECONDS)

    async def beat(self) -> None:
        held = list(self._in_hand)
        listed = held[:_LISTED]
        total, used = self._slots()
        heartbeat = msgspec.structs.replace(
            self._about,
            slots=total,
            used=used,
            running=[running.item.run_id for running in listed],
            more=len(held) > _LISTED,
            progress={
                running.item.run_id: running.progress for running in listed if running.progress is not None
            },
            state=self.state,
            at=now_us(),
        )
        await self._bucket.put(self._key, msgspec.json.encode(heartbeat), ttl=_TTL_SECONDS)

    async def leave(self) -> None:
        try:
            await self._bucket.release(self._key)
        except LogError:
            pass  # the heartbeat runs out by itself
