"""Which partitions this projector folds: an even share among the projectors whose heartbeats are alive.

For a moment two may think a partition theirs. Then the position in Postgres decides, and the one that loses drops what
it had (`PositionMoved`).
"""

import asyncio
import logging
import os
import socket

import msgspec

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.rendezvous import assigned
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.fleet import read_heartbeats
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.heartbeats import ProjectorHeartbeat

TTL = 3.0
BEAT = 1.0

_KIND = "projector"
_FORGOTTEN = 5
"""So many times the time to live after it was written, an entry is of nobody, whatever it says."""
_log = logging.getLogger(__name__)


class Membership:
    def __init__(self, control: Bucket, instance: str, partitions: int) -> None:
        self._control = control
        self._instance = instance
        self._count = partitions
        self._started_at = now_us()
        self.partitions: frozenset[int] = frozenset()
        self.changed = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                await self.heartbeat()
            except LogError as error:
                _log.warning("no heartbeat", extra={"error": str(error)})
            await asyncio.sleep(BEAT)

    async def heartbeat(self) -> None:
        """Say that we are here, see who else is, and share out."""
        beat = ProjectorHeartbeat(
            instance=self._instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            at=now_us(),
            partitions=sorted(self.partitions),
        )
        await self._control.put(names.member_key(_KIND, self._instance), msgspec.json.encode(beat), ttl=TTL)
        members = await read_heartbeats(self._control, _KIND, ProjectorHeartbeat)
        # An entry that does not expire by itself would be a projector for ever, and its partitions nobody's.
        others = {
            member.instance for member in members if abs(beat.at - member.at) < _FORGOTTEN * TTL * SECOND
        }
        mine = frozenset(assigned(self._instance, others | {self._instance}, self._count))
        if mine != self.partitions:
            _log.info("partitions to fold", extra={"partitions": len(mine), "projectors": len(members)})
            self.partitions = mine
            self.changed.set()

    async def leave(self) -> None:
        try:
            await self._control.release(names.member_key(_KIND, self._instance))
        except LogError:
            pass  # the heartbeat runs out by itself
