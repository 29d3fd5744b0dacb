"""The consumers of the work queue: an executor asks for those that it wants to serve, a scheduler makes them.

An executor has no right to make one by itself: whoever makes a consumer says where its messages go, and that may be any
subject of the log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from nats.aio.msg import Msg

from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.core.jetstream.errors import LogError, LogUnavailable, NoResponders, NotFound
from waterclock.core.jetstream.streams import ensure_work_consumers
from waterclock.core.runtime.tasks import supervised
from waterclock.proto import names

_MADE = b"made"
_GROUP = "schedulers"
_MOST_AT_ONCE = 64

_log = logging.getLogger(__name__)


async def ask_for_work_consumers(connection: Connection, routes: Iterable[tuple[str, str]]) -> None:
    """Returns when there are some. LogError when nobody makes them, and they are not there already."""
    await asyncio.gather(*(_ask_for(connection, route, tier) for route, tier in routes))


async def _ask_for(connection: Connection, route: str, tier: str) -> None:
    try:
        answer = await connection.request(names.serve_subject(route, tier), timeout=5.0)
    except NoResponders:
        for band in range(len(names.BANDS)):
            try:
                await connection.api(f"CONSUMER.INFO.{names.WORK}.{names.work_consumer(route, tier, band)}")
            except NotFound:
                raise LogUnavailable("there is no scheduler to make them yet") from None
        return
    if answer.data != _MADE:
        raise LogUnavailable(answer.data.decode(errors="replace"))


@asynccontextmanager
async def making_work_consumers(connection: Connection) -> AsyncIterator[None]:
    """Answer those who ask, while the scope lasts."""
    broadcast = Broadcast(connection)
    slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def make(message: Msg) -> None:
        _, _, route, tier = message.subject.split(".")
        try:
            if tier not in names.TIERS or not names.is_route(route):
                raise LogUnavailable(f"there is no route {route} of tier {tier}")
            await ensure_work_consumers(connection, [(route, tier)])
        except LogError as error:
            _log.warning("work consumers not made", extra={"route": route, "error": str(error)})
            broadcast(message.reply, str(error).encode())
        else:
            broadcast(message.reply, _MADE)
        finally:
            slots.release()

    async with supervised() as tasks:

        async def asked(message: Msg) -> None:
            if message.reply:
                await slots.acquire()
                tasks.spawn(make(message), name="make work consumers")

        subscription = await connection.nc.subscribe(names.serve_subject("*", "*"), queue=_GROUP, cb=asked)
        try:
            yield
        finally:
            if connection.nc.is_connected:
                await subscription.unsubscribe()
