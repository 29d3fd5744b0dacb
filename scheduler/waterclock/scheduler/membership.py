"""Who schedules, and who has died: everybody's heartbeats, read in the order in which the server stored them."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from waterclock.core.domain.instants import SECOND, instant_of
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.lease import LeaseState
from waterclock.core.jetstream.protocol import is_marker
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.heartbeats import read_heartbeat
from waterclock.proto.verdicts import InstanceState

_GAP = SECOND
_GRACE = 2 * SECOND
_GRACE_AFTER_GAP = SECOND
"""Shorter: everybody is still connected."""
_FORGOTTEN_AFTER = 60 * SECOND
_JUST_NOW = 10 * SECOND
"""A lease from still later in the future is from before the server's clock was set back."""


class _Member(Struct):
    at: Instant
    """When the server stored its last heartbeat."""
    state: InstanceState


class Liveness:
    """The rule. All times are the server's, and one's own heartbeat is its clock: somebody is dead whose last heartbeat
    is `dead_after` seconds older than our own last one. What is read late is late for both: slow reading kills nobody.

    When the server was away, everybody's heartbeat is old, and who comes back first must not take the others for dead:
    nobody is judged for a while after a reconnect, and after a gap between our own heartbeats. Not when we have just
    begun, though: then whoever is old has died before.
    """

    def __init__(self, instance: str, *, dead_after: float) -> None:
        self._instance = instance
        self._dead_after = int(dead_after * SECOND)
        self._members: dict[str, _Member] = {}
        self._now: Instant = 0
        self._judge_from: Instant = 0
        self._was_away = False

    @property
    def has_begun(self) -> bool:
        """Our own heartbeat has been read."""
        return self._now > 0

    def beat(self, instance: str, at: Instant, state: InstanceState) -> None:
        self._members[instance] = _Member(at, state)
        if instance != self._instance:
            return
        if self._now and self._was_away:
            self._judge_from = at + _GRACE
        elif self._now and at - self._now > _GAP:
            self._judge_from = max(self._judge_from, at + _GRACE_AFTER_GAP)
        self._was_away = False
        if at < self._now:  # the server's clock was set back
            for member in self._members.values():
                member.at = min(member.at, at)
        self._now = at
        for other in [name for name, member in self._members.items() if at - member.at > _FORGOTTEN_AFTER]:
            del self._members[other]

    def left(self, instance: str) -> None:
        """It has said so itself."""
        self._members.pop(instance, None)

    def reconnected(self) -> None:
        self._was_away = True

    def running(self) -> set[str]:
        """Who takes partitions: alive, and not about to leave. Ourselves in any case."""
        alive = {name for name, member in self._members.items() if member.state == "running"}
        return {name for name in alive if not self._is_dead(name)} | {self._instance}

    def is_dead(self, holder: str, since: Instant) -> bool:
        """Whether the holder of a lease that was taken at an instant lives no more. Its first heartbeat went before
        that: we have read it, if it is there, once we have read one of ours that came later."""
        just_taken = self._now <= since < self._now + _JUST_NOW
        return not just_taken and self._is_dead(holder)

    def _is_dead(self, instance: str) -> bool:
        may_judge = self.has_begun and not self._was_away and self._now >= self._judge_from
        if not may_judge or instance == self._instance:
            return False
        member = self._members.get(instance)
        return member is None or self._now - member.at > self._dead_after


class Membership:
    """`changed` is called when somebody comes, goes or has died."""

    def __init__(
        self, connection: Connection, instance: str, *, dead_after: float, changed: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._changed = changed
        self._liveness = Liveness(instance, dead_after=dead_after)
        self._running: set[str] = {instance}
        self._begun = asyncio.Event()
        self._prefix = names.kv_subject(names.CONTROL, names.member_key("scheduler", ""))

    async def begun(self) -> None:
        """Wait until our own heartbeat is read, and with it those of all others."""
        await self._begun.wait()

    def running(self) -> set[str]:
        return self._running

    def is_dead(self, lease: LeaseState) -> bool:
        return self._liveness.is_dead(lease.holder, instant_of(lease.since))

    async def follow(self) -> None:
        """Until cancelled."""
        stream = names.kv_stream(names.CONTROL)
        forget = self._connection.on_reconnect(self._liveness.reconnected)
        try:
            async with Pull.ordered(self._connection, stream, [f"{self._prefix}*"], after_sequence=0) as pull:
                while True:
                    for delivery in await pull.next():
                        self._observe(delivery)
                    self._compare()
        finally:
            forget()

    def _observe(self, delivery: Delivery) -> None:
        instance, at = delivery.subject[len(self._prefix) :], delivery.timestamp_ns // 1000
        headers = delivery.headers or {}
        if not is_marker(headers):
            is_ours = instance == self._instance
            self._liveness.beat(instance, at, "running" if is_ours else _state_of(delivery.data))
        elif "KV-Operation" in headers:
            self._liveness.left(instance)
        # Else the server says that a heartbeat has expired: how old it is we know.

    def _compare(self) -> None:
        if self._liveness.has_begun:
            self._begun.set()
        running = self._liveness.running()
        if running != self._running:
            self._running = running
            self._changed()


class _Heartbeat(Struct):
    state: InstanceState = "running"


def _state_of(heartbeat: bytes) -> InstanceState:
    """One that cannot be read is of another version, and lives."""
    found = read_heartbeat(heartbeat, _Heartbeat)
    return "running" if found is None else found.state
