"""Who changed who may do what, and who was not let in: a stream of its own, which nobody can take anything out of.

A change is recorded before it is made. If it then fails there is a second record that says so; if we die in between
there is a record of a change that was not made, and never a change without one.
Denials are recorded as far as a budget goes. Of those beyond it the next record says how many they were: a flood costs
neither room nor time.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Forbidden, Refused, Unauthenticated
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.tasks import supervised
from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.methods import Method
from waterclock.proto.verdicts import AccessAction

_log = logging.getLogger(__name__)

_BURST = 50
_SECONDS_PER_DENIAL = 5.0
"""So many denials are recorded at once, and one more each so many seconds: at most 5 MB a day."""
_NOBODY = "_"
"""Stands in a subject for the namespace of a caller whom nobody knows."""
_LONGEST = 200
_WINDOW = 1000


class AccessEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As it is stored."""

    at: Instant
    action: AccessAction
    actor: str
    address: str
    namespace: str
    subject: str
    detail: str = ""
    failed: bool = False
    unrecorded: int = 0


class Recorded(Struct, frozen=True):
    sequence: int
    event: AccessEvent


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AccessEvent).decode


class AccessLog:
    def __init__(self, connection: Connection, publisher: Publisher) -> None:
        self._connection = connection
        self._publisher = publisher
        self._denials: asyncio.Queue[AccessEvent] = asyncio.Queue(_BURST)
        self._budget = DenialBudget(time.monotonic())

    @classmethod
    @asynccontextmanager
    async def open(cls, connection: Connection, publisher: Publisher) -> AsyncIterator["AccessLog"]:
        log = cls(connection, publisher)
        async with supervised() as tasks:
            tasks.keep(log._write_denials(), name="writer of denials")
            yield log

    @asynccontextmanager
    async def change(
        self, caller: Caller, action: AccessAction, subject: str, namespace: str, detail: str = ""
    ) -> AsyncIterator[None]:
        """Around a change. If its record cannot be written, nothing is changed."""
        event = AccessEvent(
            at=now_us(),
            action=action,
            actor=caller.actor,
            address=caller.address,
            namespace=namespace,
            subject=subject,
            detail=detail[:_LONGEST],
        )
        await self._append("change", event)
        try:
            yield
        except BaseException:
            try:
                await self._append("change", msgspec.structs.replace(event, at=now_us(), failed=True))
            except LogError as error:
                _log.warning("cannot record that a change failed", extra={"reason": str(error)})
            raise

    def denied(self, method: Method[Any, Any], refused: Refused, address: str) -> None:
        """Returns at once. Other refusals than those of access are nothing to record."""
        if not isinstance(refused, Unauthenticated | Forbidden):
            return
        unrecorded = self._budget.take(time.monotonic())
        if unrecorded is None:
            return
        known = isinstance(refused, Forbidden)
        event = AccessEvent(
            at=now_us(),
            action="denied",
            actor=refused.actor if isinstance(refused, Forbidden) else "",
            address=address,
            namespace=refused.namespace if isinstance(refused, Forbidden) else "",
            subject=method.name,
            detail=f"{refused.status} {refused.problem.detail if known else 'no token that is known'}"[
                :_LONGEST
            ],
            unrecorded=unrecorded,
        )
        try:
            self._denials.put_nowait(event)
        except asyncio.QueueFull:
            self._budget.give_back(unrecorded)

    async def read(
        self, namespace: str | None, before: int | None, since: Instant | None
    ) -> AsyncIterator[Recorded]:
        """Newest first: of all namespaces (None) or of one, before a position, back to a time."""
        subjects = ["wc.access.>"] if namespace is None else _subjects_of(namespace)
        state = await stream_state(self._connection, names.ACCESS)
        high = state.last_seq if before is None else min(before - 1, state.last_seq)
        while high >= state.first_seq and high > 0:
            low = max(state.first_seq - 1, high - _WINDOW)
            found = await self._window(subjects, low, high)
            for recorded in reversed(found):
                if since is not None and recorded.event.at < since:
                    return
                yield recorded
            high = low

    async def _window(self, subjects: Sequence[str], low: int, high: int) -> list[Recorded]:
        """The records after `low`, up to `high`."""
        found: list[Recorded] = []
        source = Pull.ordered(self._connection, names.ACCESS, subjects, after_sequence=low, batch=_WINDOW)
        async with source as pull:
            async for deliveries in pull.backlog():
                for delivery in deliveries:
                    if delivery.sequence > high:
                        return found
                    try:
                        found.append(Recorded(delivery.sequence, _decode(delivery.data)))
                    except (ValueError, RecursionError):
                        continue  # nobody but an administrator of NATS can have written it
        return found

    async def _append(self, kind: str, event: AccessEvent) -> None:
        subject = names.access_subject(kind, event.namespace or _NOBODY)
        await self._publisher.publish(subject, _encode(event))

    async def _write_denials(self) -> None:
        while True:
            event = await self._denials.get()
            try:
                await self._append("denied", event)
            except LogError as error:
                self._budget.give_back(event.unrecorded)
                _log.warning("cannot record a denial", extra={"reason": str(error)})


def _subjects_of(namespace: str) -> list[str]:
    return [names.access_subject(kind, namespace) for kind in ("change", "denied")]


class DenialBudget:
    """How many denials may be recorded now, and how many were not."""

    def __init__(self, now: float) -> None:
        self._left = float(_BURST)
        self._since = now
        self._unrecorded = 0

    def take(self, now: float) -> int | None:
        """How many went unrecorded before this one; None if this one does, too."""
        self._left = min(float(_BURST), self._left + (now - self._since) / _SECONDS_PER_DENIAL)
        self._since = now
        if self._left < 1:
            self._unrecorded += 1
            return None
        self._left -= 1
        unrecorded, self._unrecorded = self._unrecorded, 0
        return unrecorded

    def give_back(self, unrecorded: int) -> None:
        """This one was not recorded after all."""
        self._unrecorded += unrecorded + 1
