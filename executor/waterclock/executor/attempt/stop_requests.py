"""Requests to stop a run, sent by the owner of its partition when the run is cancelled."""

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from waterclock.core.jetstream.connection import Connection
from waterclock.executor.in_flight import InFlight, StopCause
from waterclock.proto import names
from waterclock.proto.codec import decoder
from waterclock.proto.events import Instant
from waterclock.proto.work import StopRequest, WorkItem

_REMEMBERED = 10_000

_decode = decoder(StopRequest)


class StopRequests:
    def __init__(self, in_flight: InFlight, *, grace: float) -> None:
        self._in_flight = in_flight
        self._grace = grace
        self._before_delivery: OrderedDict[str, Instant | None] = OrderedDict()
        """By run: until when what is to be dropped was queued."""

    @asynccontextmanager
    async def subscribed(self, connection: Connection, executor_id: str) -> AsyncIterator[None]:
        unsubscribe = [
            await connection.nc.tap(names.stop_subject(to), lambda _s, _r, _h, data: self.receive(data))
            for to in (executor_id, "all")
        ]
        try:
            yield
        finally:
            for each in unsubscribe:
                each()

    def receive(self, data: bytes) -> None:
        try:
            request = _decode(data)
        except msgspec.DecodeError:
            return
        cause = StopCause(kind="cancelled", reason=request.reason, grace=0.0 if request.now else self._grace)
        until = request.until
        if self._in_flight.has_run(request.run_id):
            for running in self._in_flight.of_run(request.run_id):
                if until is None or running.item.queued <= until:
                    running.stop(cause)
        else:
            self._before_delivery[request.run_id] = until
            if len(self._before_delivery) > _REMEMBERED:
                self._before_delivery.popitem(last=False)

    @property
    def came_early(self) -> bool:
        """Whether any stop came before its run's work did."""
        return bool(self._before_delivery)

    def came_before(self, item: WorkItem) -> bool:
        """Whether a stop came before the run's work did. Its owner has cancelled it already, so the work is dropped.
        Not what was queued since: a run may be asked for again under the same id."""
        if not self._before_delivery or item.run_id not in self._before_delivery:
            return False
        until = self._before_delivery[item.run_id]
        if until is None:  # of an owner of the version before: that counts once
            del self._before_delivery[item.run_id]
            return True
        return item.queued <= until
