"""Requests to stop a run, from the owner of its partition."""

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from waterclock.core.jetstream.connection import Connection
from waterclock.executor.in_flight import Cause, InHand
from waterclock.proto import names
from waterclock.proto.work import StopRequest

_REMEMBERED = 10_000

_decode = msgspec.json.Decoder(StopRequest).decode


class Stops:
    def __init__(self, in_hand: InHand, *, grace: float) -> None:
        self._in_hand = in_hand
        self._grace = grace
        self._withdrawn: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def listening(self, connection: Connection, executor_id: str) -> AsyncIterator[None]:
        ends = [
            await connection.nc.tap(names.stop_subject(to), lambda _s, _r, _h, data: self.heard(data))
            for to in (executor_id, "all")
        ]
        try:
            yield
        finally:
            for end in ends:
                end()

    def heard(self, data: bytes) -> None:
        try:
            request = _decode(data)
        except msgspec.DecodeError:
            return
        cause = Cause(kind="cancelled", reason=request.reason, grace=0.0 if request.now else self._grace)
        held = self._in_hand.of_run(request.run_id)
        for running in held:
            running.stop(cause)
        if not held:
            self._withdrawn[request.run_id] = None
            if len(self._withdrawn) > _REMEMBERED:
                self._withdrawn.popitem(last=False)

    def withdrew(self, run_id: str) -> bool:
        """Whether a stop came before the run did. Its owner has cancelled it already; the work is to be dropped.

        Once: a run may be asked for again under the same id.
        """
        return bool(self._withdrawn) and self._withdrawn.pop(run_id, self) is None
