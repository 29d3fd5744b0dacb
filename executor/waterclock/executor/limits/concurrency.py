"""Concurrency keys: at most so many runs with the same key at a time, on all executors together.

Each place under a key is a lease in the control bucket, held while the run lasts and renewed by its executor. An
executor that dies leaves nothing behind: its leases run out.
"""

import asyncio
import logging
from collections import deque
from hashlib import blake2b

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import Conflict, LogError
from waterclock.executor.in_flight import Cause, Running
from waterclock.proto import names

_log = logging.getLogger(__name__)

_TTL = 6.0
_RENEW_SECONDS = 1.5
_LOOK_SECONDS = 0.5
_TRIES = 3
MOST_WAITING = 8
"""Runs that wait here for a place under one key; more would only keep others from looking elsewhere."""
PATIENCE = 20.0


class Place:
    """A place under a key that is held for a run."""

    def __init__(self, line: "_Line", key: str, revision: int) -> None:
        self.line = line
        self.key = key
        self.revision = revision
        self.running: Running | None = None


class Keys:
    def __init__(self, bucket: Bucket, executor_id: str) -> None:
        self._bucket = bucket
        self._value = executor_id.encode()
        self._lines: dict[tuple[str, int], _Line] = {}
        self._held: set[Place] = set()

    async def acquire(self, key: str, limit: int, running: Running) -> Place | None:
        """A place, after waiting a while for one if few wait already. None: try again later."""
        line = self._lines.setdefault((key, limit), _Line(key, limit))
        place = await self._take(line) if not line.waiting else None
        if place is None and len(line.waiting) < MOST_WAITING:
            place = await self._wait(line, running)
        if place is None:
            self._forget_if_unused(line)
            return None
        place.running = running
        self._held.add(place)
        return place

    async def release(self, place: Place) -> None:
        """To the next who waits here, without a gap; else to everybody."""
        place.running = None
        if place in self._held and not place.line.pass_on(place):
            await self._give_up(place)

    async def renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            await asyncio.gather(*(self._renew(place) for place in list(self._held)))

    async def _take(self, line: "_Line") -> Place | None:
        """A place that nobody has."""
        for _ in range(_TRIES):
            free = await self._free_place(line)
            if free is None:
                return None
            try:
                return Place(line, free, await self._bucket.create(free, self._value, ttl=_TTL))
            except Conflict:
                continue
            except LogError:
                return None
        return None

    async def _free_place(self, line: "_Line") -> str | None:
        if line.limit == 1:
            return names.key_place(line.digest, 0)
        try:
            taken = {entry.key for entry in await self._bucket.scan(names.key_place(line.digest))}
        except LogError:
            return None
        every = (names.key_place(line.digest, number) for number in range(line.limit))
        return next((key for key in every if key not in taken), None)

    async def _wait(self, line: "_Line", running: Running) -> Place | None:
        """For one of ours to be passed on, or for somebody else's to become free."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Place] = loop.create_future()
        line.waiting.append(turn)
        give_up = loop.time() + PATIENCE
        try:
            while loop.time() < give_up and running.cause is None:
                await asyncio.wait([turn], timeout=_LOOK_SECONDS)
                if turn.done():
                    return turn.result()
                if line.waiting[0] is turn and (place := await self._take(line)) is not None:
                    if not turn.done():
                        return place
                    await self._give_up(place)
                    return turn.result()
        finally:
            if turn in line.waiting:
                line.waiting.remove(turn)
        return turn.result() if turn.done() else None

    async def _renew(self, place: Place) -> None:
        try:
            place.revision = await self._bucket.update(place.key, self._value, place.revision, ttl=_TTL)
        except Conflict:
            self._held.discard(place)
            if place.running is not None:
                place.running.stop(Cause(kind="handed_back", reason="its place under its key was lost"))
        except LogError as error:
            _log.warning("cannot renew a place", extra={"key": place.key, "error": str(error)})

    async def _give_up(self, place: Place) -> None:
        self._held.discard(place)
        self._forget_if_unused(place.line)
        try:
            await self._bucket.release(place.key, revision=place.revision)
        except LogError:
            pass  # it runs out by itself

    def _forget_if_unused(self, line: "_Line") -> None:
        if not line.waiting and not any(place.line is line for place in self._held):
            self._lines.pop((line.key, line.limit), None)


class _Line:
    """Who waits here for a place under one key."""

    def __init__(self, key: str, limit: int) -> None:
        self.key = key
        self.limit = limit
        self.digest = digest_of(key)
        self.waiting: deque[asyncio.Future[Place]] = deque()

    def pass_on(self, place: Place) -> bool:
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(place)
                return True
        return False


def digest_of(key: str) -> str:
    """Any text as a token of a subject."""
    return blake2b(key.encode(), digest_size=12).hexdigest()
