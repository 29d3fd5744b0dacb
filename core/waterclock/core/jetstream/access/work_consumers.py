"""The consumers of the work queue, one for each line (route, tier, priority): an executor asks for those of the routes
that it wants to serve, a scheduler makes them.

An executor has no right to make one by itself: whoever makes a consumer says where its messages go, and that may be any
subject of the log. Of the lines of a route only that of priority 0 is always there. A scheduler makes another one when
it has work for it, and says so; and removes those that nothing has passed through for a while.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from nats.aio.msg import Msg

from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.core.jetstream.errors import LogError, LogUnavailable, NoResponders, NotAllowed, NotFound
from waterclock.core.jetstream.streams import ensure_work_consumers
from waterclock.core.runtime.tasks import supervised
from waterclock.proto import names

_MADE = b"made"
_WHICH = b"which"
"""What an executor asks that takes work from any line; one of the version before asks nothing."""
_GROUP = "schedulers"
_MOST_AT_ONCE = 64
_LOOK_SECONDS = 10.0
_IDLE_SECONDS = 600.0
"""A line that nothing has passed through for so long, and that holds nothing, is removed."""
_LOOKS_TO_REMOVE = 6

_OF_FIRST_RELEASES = tuple(line for line in names.LINES if line.isdigit())

_log = logging.getLogger(__name__)


# -- executors ------------------------------------------------------------------------------------------


async def ask_for_lines(connection: Connection, route: str, tier: str) -> set[str]:
    """Returns which there are when there are some. LogError when nobody makes them, and they are not there already."""
    try:
        answer = await connection.request(names.serve_subject(route, tier), _WHICH, timeout=5.0)
    except NoResponders:
        found = await _find_lines(connection, route, tier)
        if names.ALWAYS not in found:
            raise LogUnavailable("there is no scheduler to make them yet") from None
        return found
    if answer.data == _MADE:
        return set(_OF_FIRST_RELEASES)  # by a scheduler of the version before
    try:
        return {line for line in json.loads(answer.data) if names.is_line(line)}
    except (ValueError, TypeError):
        raise LogUnavailable(answer.data.decode(errors="replace")) from None


async def _find_lines(connection: Connection, route: str, tier: str) -> set[str]:
    """Nobody is there to say which: look for each."""

    async def is_there(line: str) -> bool:
        try:
            await connection.api(f"CONSUMER.INFO.{names.WORK}.{names.work_consumer(route, tier, line)}")
        except (NotFound, NotAllowed):
            return False
        return True

    there = await asyncio.gather(*map(is_there, names.LINES))
    return {line for line, found in zip(names.LINES, there, strict=True) if found}


async def may_take_lines(connection: Connection, route: str) -> bool | None:
    """Whether we are let take work of exactly one priority: a token for many routes is not. None: no answer."""
    consumer = names.work_consumer(route, names.TIERS[0], names.LINES[-1])
    try:
        await connection.api(f"CONSUMER.INFO.{names.WORK}.{consumer}", timeout=2.0)
    except NotFound:
        return True
    except NotAllowed:
        return False
    except LogError:
        return None
    return True


# -- schedulers -----------------------------------------------------------------------------------------


class WorkLines:
    """Which lines have a consumer, as far as one scheduler knows. There may be others, who make and remove some too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._broadcast = Broadcast(connection)
        self._known: set[str] = set()
        """Names of consumers."""

    def lines_of(self, route: str, tier: str) -> list[str]:
        return [line for line in names.LINES if names.work_consumer(route, tier, line) in self._known]

    def lacks(self, consumers: set[str]) -> bool:
        return not consumers <= self._known

    async def ensure(self, consumers: Iterable[str], *, anew: bool = False) -> None:
        """Make those that are not known to be there, or all of them `anew`: somebody may have removed one."""
        wanted = [name for name in consumers if anew or name not in self._known]
        if not wanted:
            return
        parts = [names.parts_of_consumer(name) for name in wanted]
        await ensure_work_consumers(self._connection, [each for each in parts if each is not None])
        new = [name for name in wanted if name not in self._known]
        self._known.update(new)
        if new:
            self._broadcast(names.LINES_MADE, " ".join(new).encode())

    async def look(self) -> None:
        """Read which there are."""
        found: set[str] = set()
        async for page in self._pages("NAMES"):
            found.update(page)
        self._known = found

    async def remove_idle(self, in_use: set[str], now: float) -> list[str]:
        """Those that hold nothing, and have not for a while; but not what is always there."""
        idle = []
        async for page in self._pages("LIST"):
            for info in page:
                parts = names.parts_of_consumer(info["name"])
                if parts is None or parts[2] == names.ALWAYS or info["name"] in in_use:
                    continue
                if _is_idle(info, now):
                    idle.append(info["name"])
        for name in idle:
            self._known.discard(name)
            await self._connection.api(f"CONSUMER.DELETE.{names.WORK}.{name}")
        return idle

    async def keep(self, in_use: Callable[[], set[str]]) -> None:
        """Until cancelled: what is in use is there, also if somebody has removed it meanwhile, and what is not goes."""
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            looks += 1
            try:
                await self.look()
                await self.ensure(in_use())
                if looks % _LOOKS_TO_REMOVE == 0:
                    removed = await self.remove_idle(in_use(), time.time())
                    if removed:
                        _log.info("removed lines that are not used", extra={"consumers": removed})
            except LogError as error:
                _log.info("cannot look after the lines of the work queue: %s", error)

    def heard(self, consumers: str) -> None:
        """Somebody else has made some."""
        self._known.update(name for name in consumers.split() if names.parts_of_consumer(name) is not None)

    async def _pages(self, what: str) -> AsyncIterator[list[Any]]:
        seen = 0
        while True:
            answer = await self._connection.api(f"CONSUMER.{what}.{names.WORK}", {"offset": seen})
            page = answer.get("consumers") or []
            seen += len(page)
            yield page
            if not page or seen >= answer["total"]:
                return


def _is_idle(info: dict[str, Any], now: float) -> bool:
    if info["num_pending"] or info["num_ack_pending"]:
        return False
    moments = [
        info.get("created"),
        info["delivered"].get("last_active"),
        info["ack_floor"].get("last_active"),
    ]
    last = max(datetime.fromisoformat(moment).timestamp() for moment in moments if moment)
    return now - last > _IDLE_SECONDS


@asynccontextmanager
async def making_work_consumers(connection: Connection) -> AsyncIterator[WorkLines]:
    """Answer those who ask, while the scope lasts."""
    broadcast = Broadcast(connection)
    slots = asyncio.Semaphore(_MOST_AT_ONCE)
    lines = WorkLines(connection)
    try:
        await lines.look()
    except LogError as error:
        _log.warning("the lines of the work queue cannot be read: %s", error)

    async def make(message: Msg) -> None:
        _, _, route, tier = message.subject.split(".")
        wanted = (names.ALWAYS,) if message.data == _WHICH else _OF_FIRST_RELEASES
        try:
            if tier not in names.TIERS or not names.is_route(route):
                raise LogUnavailable(f"there is no route {route} of tier {tier}")
            await lines.ensure([names.work_consumer(route, tier, line) for line in wanted], anew=True)
        except LogError as error:
            _log.warning("work consumers not made", extra={"route": route, "error": str(error)})
            broadcast(message.reply, str(error).encode())
        else:
            made = json.dumps(lines.lines_of(route, tier)).encode() if message.data == _WHICH else _MADE
            broadcast(message.reply, made)
        finally:
            slots.release()

    async with supervised() as tasks:

        async def asked(message: Msg) -> None:
            if message.reply:
                await slots.acquire()
                tasks.spawn(make(message), name="make work consumers")

        async def told(message: Msg) -> None:
            lines.heard(message.data.decode(errors="replace"))

        asking = await connection.nc.subscribe(names.serve_subject("*", "*"), queue=_GROUP, cb=asked)
        telling = await connection.nc.subscribe(names.LINES_MADE, cb=told)
        try:
            yield lines
        finally:
            if connection.nc.is_connected:
                await asking.unsubscribe()
                await telling.unsubscribe()
