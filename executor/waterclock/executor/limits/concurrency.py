"""Concurrency keys: at most so many runs with the same key at a time, over all executors together.

Each permit under a key is a lease in the control bucket, held while the run lasts and renewed by its executor. An
executor that dies leaves nothing behind: its leases expire.
"""

import asyncio
import logging
from collections import deque
from hashlib import blake2b

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import Conflict, LogError
from waterclock.executor.in_flight import RunningAttempt, StopCause
from waterclock.proto import names

_log = logging.getLogger(__name__)

_TTL = 6.0
_RENEW_SECONDS = 1.5
_POLL_SECONDS = 0.5
_TRIES = 3
_MAX_WAITING = 8
"""Runs that wait here for a permit under one key; more would only keep others from looking elsewhere."""
_MAX_WAIT_SECONDS = 20.0


class Permit:
    """One of the leases under a key, held for a run."""

    def __init__(self, waiters: "_Waiters", key: str, revision: int) -> None:
        self.waiters = waiters
        self.key = key
        self.revision = revision
        self.running: RunningAttempt | None = None


class ConcurrencyLimits:
    def __init__(self, bucket: Bucket, executor_id: str) -> None:
        self._bucket = bucket
        self._value = executor_id.encode()
        self._waiters: dict[tuple[str, int], _Waiters] = {}
        self._held: set[Permit] = set()

    async def acquire(self, key: str, limit: int, running: RunningAttempt) -> Permit | None:
        """A permit, after waiting a while for one if few wait already. None: try again later."""
        waiters = self._waiters.setdefault((key, limit), _Waiters(key, limit))
        permit = await self._take_free(waiters) if not waiters.queue else None
        if permit is None and len(waiters.queue) < _MAX_WAITING:
            permit = await self._wait(waiters, running)
        if permit is None:
            self._forget_if_unused(waiters)
            return None
        permit.running = running
        self._held.add(permit)
        return permit

    async def release(self, permit: Permit) -> None:
        """To the next run that waits here, without giving up the lease; if there is none, to every executor."""
        permit.running = None
        if permit in self._held and not permit.waiters.pass_on(permit):
            await self._give_up(permit)

    async def keep_renewed(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            await asyncio.gather(*(self._renew(permit) for permit in list(self._held)))

    async def _take_free(self, waiters: "_Waiters") -> Permit | None:
        """A permit that nobody holds."""
        for _ in range(_TRIES):
            free = await self._free_key(waiters)
            if free is None:
                return None
            try:
                return Permit(waiters, free, await self._bucket.create(free, self._value, ttl=_TTL))
            except Conflict:
                continue
            except LogError:
                return None
        return None

    async def _free_key(self, waiters: "_Waiters") -> str | None:
        if waiters.limit == 1:
            return names.key_place(waiters.digest, 0)
        try:
            taken = {entry.key for entry in await self._bucket.walk(names.key_place(waiters.digest))}
        except LogError:
            return None
        every = (names.key_place(waiters.digest, number) for number in range(waiters.limit))
        return next((key for key in every if key not in taken), None)

    async def _wait(self, waiters: "_Waiters", running: RunningAttempt) -> Permit | None:
        """For a permit of ours to be passed on, or for one of another executor to become free."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Permit] = loop.create_future()
        waiters.queue.append(turn)
        deadline = loop.time() + _MAX_WAIT_SECONDS
        try:
            while loop.time() < deadline and running.stop_cause is None:
                await asyncio.wait([turn], timeout=_POLL_SECONDS)
                if turn.done():
                    return turn.result()
                if waiters.queue[0] is turn and (permit := await self._take_free(waiters)) is not None:
                    if not turn.done():
                        return permit
                    await self._give_up(permit)
                    return turn.result()
        finally:
            if turn in waiters.queue:
                waiters.queue.remove(turn)
        return turn.result() if turn.done() else None

    async def _renew(self, permit: Permit) -> None:
        try:
            permit.revision = await self._bucket.update(permit.key, self._value, permit.revision, ttl=_TTL)
        except Conflict:
            self._held.discard(permit)
            if permit.running is not None:
                cause = StopCause(kind="returned", reason="its place under its key was lost")
                permit.running.stop(cause)
        except LogError as error:
            _log.warning("cannot renew a concurrency permit", extra={"key": permit.key, "error": str(error)})

    async def _give_up(self, permit: Permit) -> None:
        self._held.discard(permit)
        self._forget_if_unused(permit.waiters)
        try:
            await self._bucket.release(permit.key, revision=permit.revision)
        except LogError:
            pass  # the lease expires by itself

    def _forget_if_unused(self, waiters: "_Waiters") -> None:
        if not waiters.queue and not any(permit.waiters is waiters for permit in self._held):
            self._waiters.pop((waiters.key, waiters.limit), None)


class _Waiters:
    """The runs that wait in this executor for a permit under one key."""

    def __init__(self, key: str, limit: int) -> None:
        self.key = key
        self.limit = limit
        self.digest = digest_of(key)
        self.queue: deque[asyncio.Future[Permit]] = deque()

    def pass_on(self, permit: Permit) -> bool:
        while self.queue:
            turn = self.queue.popleft()
            if not turn.done():
                turn.set_result(permit)
                return True
        return False


def digest_of(key: str) -> str:
    """Any text as a token of a subject."""
    return blake2b(key.encode(), digest_size=12).hexdigest()
