"""Who schedules: a heartbeat per instance in the control bucket, gone with its TTL."""

import os
import socket
import time

import msgspec

from waterclock.core.jetstream.bucket import Bucket
from waterclock.proto import names
from waterclock.proto.heartbeats import PartitionStatus, SchedulerHeartbeat
from waterclock.proto.verdicts import InstanceState

TTL = 2.0
BEAT = 0.5


class Membership:
    def __init__(self, bucket: Bucket, instance: str) -> None:
        self._bucket = bucket
        self._instance = instance
        self._started_at = time.time_ns() // 1000
        self._key = names.member_key("scheduler", instance)

    async def beat(self, state: InstanceState, partitions: list[PartitionStatus]) -> None:
        heartbeat = SchedulerHeartbeat(
            instance=self._instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            at=time.time_ns() // 1000,
            state=state,
            partitions=partitions,
        )
        await self._bucket.put(self._key, msgspec.json.encode(heartbeat), ttl=TTL)

    async def members(self) -> set[str]:
        """The instances that take partitions: alive, and not about to leave."""
        found = await self._bucket.scan(names.member_key("scheduler", "*"))
        return {
            beat.instance
            for beat in (msgspec.json.decode(entry.value, type=SchedulerHeartbeat) for entry in found)
            if beat.state == "running"
        }

    async def leave(self) -> None:
        await self._bucket.release(self._key)
