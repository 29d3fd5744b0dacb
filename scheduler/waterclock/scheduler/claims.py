"""Claims: an executor holds a delivery that is not the first, and asks the partition's owner whether it may run."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from waterclock.core.domain.partition.owner import Owner
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.proto.work import ClaimReply, ClaimRequest
from waterclock.scheduler.ports import Ports

_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(ClaimRequest).decode


class Decided(Struct, frozen=True):
    message: Msg
    reply: ClaimReply


class Claims:
    def __init__(self, ports: Ports, partition: int) -> None:
        self._ports = ports
        self._partition = partition
        self._asked: list[Msg] = []

    @asynccontextmanager
    async def listening(self, wake: asyncio.Event) -> AsyncIterator[None]:
        async def asked(message: Msg) -> None:
            self._asked.append(message)
            wake.set()

        subscription = await self._ports.connection.nc.subscribe(
            names.claim_subject(self._partition), cb=asked
        )
        try:
            yield
        finally:
            try:
                await subscription.unsubscribe()
            except Exception:
                _log.debug("the connection is gone, and with it the subscription")

    async def decide(self, owner: Owner, now: int) -> list[Decided]:
        """Answers that may leave once the pass they belong to is in the log."""
        asked, self._asked = self._asked, []
        decided = []
        for message in asked:
            try:
                request = _decode(message.data)
            except msgspec.DecodeError:
                continue
            run = owner.state.runs.get(request.run_id)
            alive = (
                run is not None
                and run.executor_id is not None
                and await self._has(run.executor_id, run.run_id)
            )
            decided.append(Decided(message, owner.claim(request, alive, now)))
        return decided

    async def answer(self, decided: list[Decided]) -> None:
        for each in decided:
            await each.message.respond(encode(each.reply))

    async def _has(self, executor_id: str, run_id: str) -> bool:
        """Whether an executor lives and says that it runs this."""
        entry = await self._ports.control.get(names.member_key("executor", executor_id))
        if entry is None:
            return False
        heartbeat = msgspec.json.decode(entry.value, type=ExecutorHeartbeat)
        return heartbeat.more or run_id in heartbeat.running
