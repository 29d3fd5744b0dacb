"""Runs that were cancelled while they travelled in a parcel: their owner cannot take the message back for one of many.

It writes `cancel.<run_id>` into the control bucket, and whoever unpacks the parcel leaves the run out. The write is a
plain message too, so we listen to it, and read the bucket only when we connect: it costs nothing while nobody cancels.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.proto import names
from waterclock.proto.work import WorkItem

_AGAIN_SECONDS = 0.5
_REMEMBERED = 100_000

_log = logging.getLogger(__name__)


class Recalls:
    def __init__(self, bucket: Bucket) -> None:
        self.are_known = False
        """All that were written are known here. Until then the owner is asked before a parcel is unpacked."""
        self._bucket = bucket
        self._until: OrderedDict[str, int] = OrderedDict()
        """By run: what was queued up to then is not to run."""
        self._connected = asyncio.Event()

    @asynccontextmanager
    async def heard(self, connection: Connection) -> AsyncIterator[None]:
        """Listen while the scope lasts, and read what was written before."""
        subject = names.kv_subject(self._bucket.name, names.cancel_key("*"))
        prefix = len(names.kv_subject(self._bucket.name, names.cancel_key("")))
        end = await connection.nc.tap(subject, lambda s, _r, _h, data: self._note(s.decode()[prefix:], data))
        unregister = connection.on_reconnect(self._reconnected)
        await self._read()
        try:
            yield
        finally:
            unregister()
            end()

    async def keep_known(self) -> None:
        """Read the bucket again after each time we were disconnected, until cancelled."""
        while True:
            await self._connected.wait()
            self._connected.clear()
            await self._read()
            if not self.are_known:
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _read(self) -> None:
        try:
            for entry in await self._bucket.walk(names.cancel_key("*")):
                self._note(entry.key.partition(".")[2], entry.value)
        except LogError as error:
            _log.info("the recalled runs cannot be read: %s", error)
            self._connected.set()
        self.are_known = not self._connected.is_set()

    @property
    def are_any(self) -> bool:
        return bool(self._until)

    def has(self, item: WorkItem) -> bool:
        return self._until.get(item.run_id, 0) >= item.queued

    def _note(self, run_id: str, value: bytes) -> None:
        """A deletion, or the end of an entry's time, says nothing new."""
        if value.isdigit():
            self._until[run_id] = int(value)
            self._until.move_to_end(run_id)
            if len(self._until) > _REMEMBERED:
                self._until.popitem(last=False)

    def _reconnected(self) -> None:
        self.are_known = False
        self._connected.set()
