"""This executor's heartbeat in the control bucket. It expires soon after we stop renewing it."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

import msgspec

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import LogError
from waterclock.core.runtime.clock import now_us
from waterclock.executor.in_flight import InFlight
from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.proto.verdicts import InstanceState

_log = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0
_TTL_SECONDS = 4.0
_MAX_LISTED_RUNS = 500


class Heartbeat:
    def __init__(
        self,
        bucket: Bucket,
        in_flight: InFlight,
        *,
        executor_id: str,
        tier: str,
        queues: list[str],
        handlers: list[str],
        parcels: list[str],
        slots: Callable[[], tuple[int, int]],
        protections: dict[str, str],
    ) -> None:
        """`slots`: returns how many there are and how many are in use."""
        self._bucket = bucket
        self._in_flight = in_flight
        self._key = names.member_key("executor", executor_id)
        self._constant = ExecutorHeartbeat(
            instance=executor_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            tier=tier,
            queues=queues,
            handlers=handlers,
            parcels=parcels,
            started_at=now_us(),
            protections=protections,
        )
        self._slots = slots
        self.state: InstanceState = "running"
        self.lines = False
        """Whether it may take work from the lines of exactly one priority."""

    async def run(self) -> None:
        while True:
            try:
                await self.write()
            except LogError as error:
                _log.debug("no heartbeat", extra={"error": str(error)})
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def write(self) -> None:
        held = self._in_flight.run_ids
        listed = dict.fromkeys(held[:_MAX_LISTED_RUNS])
        total, used = self._slots()
        heartbeat = msgspec.structs.replace(
            self._constant,
            slots=total,
            used=used,
            running=held[:_MAX_LISTED_RUNS],
            more=len(held) > _MAX_LISTED_RUNS,
            progress={
                running.item.run_id: running.progress
                for running in self._in_flight
                if running.progress is not None and running.item.run_id in listed
            },
            lines=self.lines,
            state=self.state,
            at=now_us(),
        )
        await self._bucket.put(self._key, msgspec.json.encode(heartbeat), ttl=_TTL_SECONDS)

    async def remove(self) -> None:
        try:
            await self._bucket.release(self._key)
        except LogError:
            pass  # it expires by itself
