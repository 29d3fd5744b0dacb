"""Slows callers down when the system is behind: what it takes no more of is refused with a time to try again.

The schedulers' heartbeats are read at most twice a second, and only while somebody creates something: an idle api
reads nothing. Whoever comes after a while of silence is not made to wait for that, unless with many jobs at once.
While callers are slowed down every api says so in the control bucket, and the rate is divided by their number. Where
they have not heard of each other yet, in the first second, each takes the whole.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Raw

from waterclock.api.admission.due_times import count_due_within, is_due_within
from waterclock.api.admission.throttle import Refusal, Throttle
from waterclock.api.errors import Saturated
from waterclock.api.metrics import ADMISSIONS
from waterclock.core.domain.system_load import SystemLoad, system_load
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.fleet import read_heartbeats
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.tasks import Tasks, supervised
from waterclock.proto import methods, names
from waterclock.proto.heartbeats import ApiHeartbeat, SchedulerHeartbeat
from waterclock.proto.methods import Method
from waterclock.proto.spec import JobSpec

_READ_EVERY = 0.5
_STALE_SECONDS = 2.0
_FORGOTTEN_SECONDS = 5.0
_PATIENCE = 0.5
_BEAT_TTL = 3.0
_BULK = 50
"""A call with fewer jobs is never held."""

_ADMITTED = ADMISSIONS.labels("admitted")
_MAY_BE_LATER = {methods.JOBS_CREATE.name, methods.JOBS_BATCH.name, methods.WORKFLOWS_CREATE.name}
_SOON = {methods.JOBS_RUN_NOW.name, methods.WORKFLOWS_RUN_NOW.name}


class Admission:
    def __init__(self, control: Bucket, instance: str, tasks: Tasks) -> None:
        """Made by `open`."""
        self._control = control
        self._instance = instance
        self._tasks = tasks
        self._throttle = Throttle()
        self._read_at = self._tried_at = time.monotonic() - 2 * _FORGOTTEN_SECONDS
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, control: Bucket, instance: str) -> AsyncIterator["Admission"]:
        async with supervised() as tasks:
            yield cls(control, instance, tasks)

    async def before_body(self, method: Method[Any, Any], namespace: str) -> None:
        """Refuses before the body is read, where none that it could have would be accepted."""
        if method.name not in _SOON and method.name not in _MAY_BE_LATER:
            return
        await self._refresh(wait=method is methods.JOBS_BATCH)
        only_soon = method.name in _SOON
        self._refuse(self._throttle.asked(namespace, time.monotonic(), only_soon=only_soon))

    async def admit(self, namespace: str, count: int = 1) -> None:
        """So many runs that begin as soon as they can. Raises Saturated."""
        await self._refresh()
        self._take(namespace, soon=count)

    async def admit_job(self, spec: JobSpec, namespace: str) -> None:
        await self._refresh()
        if self._throttle.slows(namespace) and not is_due_within(
            spec, now_us(), self._throttle.horizon_seconds
        ):
            self._take(namespace, later=1)
        else:
            self._take(namespace, soon=1)

    async def admit_jobs(self, lines: list[Raw], namespace: str) -> None:
        """Definitions that nobody has looked at: all of them or none."""
        await self._refresh(wait=True)
        if len(lines) >= _BULK:
            await self._hold(lines)
        soon = len(lines)
        if self._throttle.slows(namespace):
            soon = count_due_within(lines, now_us(), self._throttle.horizon_seconds)
        self._take(namespace, soon=soon, later=len(lines) - soon)

    async def _hold(self, lines: list[Raw]) -> None:
        count = len(lines)
        seconds = self._throttle.hold(count, time.monotonic(), soon=self._look_soon(lines))
        try:
            if seconds:
                await asyncio.sleep(seconds)
        finally:
            self._throttle.release(count)

    def _look_soon(self, lines: list[Raw]) -> bool:
        """Whether any of three is due soon: of a bulk call nearly always all are, or none."""
        some = (lines[0], lines[len(lines) // 2], lines[-1])
        return count_due_within(some, now_us(), self._throttle.horizon_seconds) > 0

    @property
    def apis(self) -> int:
        """How many slow callers down, and share the rate."""
        return self._throttle.apis

    def heartbeat(self) -> ApiHeartbeat:
        return ApiHeartbeat(
            instance=self._instance,
            at=now_us(),
            accepted_per_second=self._throttle.accepted.per_second(time.monotonic()),
        )

    async def others(self) -> list[ApiHeartbeat]:
        """Of the other apis, those that slow callers down."""
        found = await read_heartbeats(self._control, "api", ApiHeartbeat)
        return [beat for beat in found if beat.instance != self._instance]

    def _take(self, namespace: str, *, soon: int = 0, later: int = 0) -> None:
        self._refuse(self._throttle.take(namespace, time.monotonic(), soon=soon, later=later))
        _ADMITTED.inc()

    def _refuse(self, refusal: Refusal | None) -> None:
        if refusal is None:
            return
        ADMISSIONS.labels(refusal.reason).inc()
        if refusal.waiting:
            raise Saturated.crowded(refusal.waiting, refusal.retry_after)
        raise Saturated.behind(refusal.drain_seconds, refusal.jobs_per_second, refusal.retry_after)

    # -- reading ------------------------------------------------------------------------------------------

    async def _refresh(self, *, wait: bool = False) -> None:
        now = time.monotonic()
        age = now - self._read_at
        if age > _FORGOTTEN_SECONDS:
            self._throttle.heard(SystemLoad(), now=now)
        if now - self._tried_at > _READ_EVERY and (self._reading is None or self._reading.done()):
            self._tried_at = now
            self._reading = self._tasks.spawn(self._read(), name="reader of heartbeats")
        if wait and age > _STALE_SECONDS and self._reading is not None:
            await asyncio.wait((self._reading,), timeout=_PATIENCE)

    async def hear(self) -> None:
        """Read the heartbeats now."""
        if self._reading is not None:
            await asyncio.wait((self._reading,))
        await self._read()

    async def _read(self) -> None:
        """What cannot be read is not known, and then nobody is refused: accepting comes before counting."""
        before = self._throttle.accepted_in_all
        try:
            schedulers = await read_heartbeats(self._control, "scheduler", SchedulerHeartbeat)
            load = system_load(schedulers, now_us())
            apis = 1
            if load.saturated:
                beat = msgspec.json.encode(self.heartbeat())
                await self._control.put(names.member_key("api", self._instance), beat, ttl=_BEAT_TTL)
                apis += len(await self.others())
        except LogError:
            return
        self._read_at = time.monotonic()
        since = self._throttle.accepted_in_all - before
        self._throttle.heard(load, apis, since=since, now=self._read_at)
