"""Is this still the log that we know? And what time does it say it is? Asked every second by every component.

A process remembers how far the log had come; one that ends earlier, or was made anew, is not the same. What happened
while no process lived only Postgres remembers, so the projector compares, and says in the control bucket that
nobody may go on (`halt`).
"""

import asyncio
import logging
import time
from contextlib import suppress
from datetime import datetime

from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, LogUnavailable, NotFound
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.clock import agree
from waterclock.proto import names

CATCHING_UP = 3.0
_EVERY = 1.0
_AGAIN = 0.2

_log = logging.getLogger(__name__)


class WrongLog(LogError):
    """The log lost messages, or is another one. Somebody has to look at it; to go on would mix two histories."""


class Vigil:
    """`heeds_halt`: the one who calls the halt judges for itself, every time it begins."""

    def __init__(self, connection: Connection, *, heeds_halt: bool = True) -> None:
        self._connection = connection
        self._heeds_halt = heeds_halt
        self._control = Bucket(connection, Publisher(connection), names.CONTROL)
        self._created = ""
        self._reached = 0

    async def keep(self) -> None:
        """For ever, unless the log is wrong. At once when the server was away: it may have come back with another."""
        back = asyncio.Event()
        forget = self._connection.on_reconnect(back.set)
        try:
            while True:
                back.clear()
                try:
                    await self.look()
                except LogUnavailable as error:
                    _log.debug("the log is away", extra={"error": str(error)})
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EVERY):
                        await back.wait()
        finally:
            forget()

    async def look(self) -> None:
        """Raises WrongLog. A new leader of a replicated stream may not know yet all that it has: it is asked again."""
        patience = time.monotonic() + CATCHING_UP
        while True:
            began = time.monotonic()
            try:
                info = await self._connection.api(f"STREAM.INFO.{names.RUNS}")
            except NotFound:
                if not self._created:
                    return  # whoever makes the streams has not come to it yet
                raise WrongLog(f"stream {names.RUNS} has been deleted") from None
            if "ts" in info:
                took = int((time.monotonic() - began) * 1e6)
                agree(instant_of(datetime.fromisoformat(info["ts"])), took)
            try:
                self._compare(info["created"], info["state"]["last_seq"])
                break
            except WrongLog:
                if info["config"].get("num_replicas", 1) == 1 or time.monotonic() > patience:
                    raise
            await asyncio.sleep(_AGAIN)
        if self._heeds_halt and (halted := await self._control.get(names.HALT_KEY)) is not None:
            raise WrongLog(halted.value.decode())

    def _compare(self, created: str, last: int) -> None:
        if self._created and created != self._created:
            raise WrongLog(
                f"stream {names.RUNS} was created {created}, but the one we worked on was created {self._created}: "
                "it has been deleted and made anew"
            )
        if last < self._reached:
            raise WrongLog(
                f"stream {names.RUNS} ends at sequence {last}, but had reached {self._reached}: the log has lost its "
                "end. Stop everything and restore the NATS data from a backup or a replica."
            )
        self._created, self._reached = created, last


async def halt(control: Bucket, reason: str) -> None:
    """Tell every component that it must not go on with this log."""
    await control.put(names.HALT_KEY, reason.encode())


async def lift(control: Bucket) -> None:
    """The log is good."""
    if await control.get(names.HALT_KEY) is not None:
        await control.delete(names.HALT_KEY)
