"""What passes between a partition's owner and the executors: claims, their heartbeats, and stops."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from nats.aio.msg import Msg

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.proto.work import ClaimReply, ClaimRequest, StopRequest
from waterclock.scheduler.ports import Claim

_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(ClaimRequest).decode


class ExecutorLink:
    def __init__(self, connection: Connection, control: Bucket, partition: int) -> None:
        self._connection = connection
        self._control = control
        self._partition = partition

    @asynccontextmanager
    async def claims(self, receive: Callable[[Claim], None]) -> AsyncIterator[None]:
        async def asked(message: Msg) -> None:
            async def answer(reply: ClaimReply) -> None:
                await message.respond(encode(reply))

            try:
                request = _decode(message.data)
            except msgspec.DecodeError:
                _log.warning("a claim that is none", extra={"subject": message.subject})
                return
            receive(Claim(request, answer))

        subject = names.claim_subject(self._partition)
        subscription = await self._connection.nc.subscribe(subject, cb=asked)
        try:
            yield
        finally:
            try:
                await subscription.unsubscribe()
            except Exception:
                _log.debug("the connection is gone, and with it the subscription")

    async def has_run(self, executor_id: str, run_id: str) -> bool:
        entry = await self._control.get(names.member_key("executor", executor_id))
        if entry is None:
            return False
        try:
            heartbeat = msgspec.json.decode(entry.value, type=ExecutorHeartbeat)
        except msgspec.DecodeError as error:
            # Of another version. It lives, so the claim waits until it is gone: that must not end the partition.
            _log.warning(
                "a heartbeat that cannot be read", extra={"executor": executor_id, "error": str(error)}
            )
            return True
        return heartbeat.more or run_id in heartbeat.running

    async def stop(self, executor_id: str | None, request: StopRequest) -> None:
        await self._connection.nc.publish(names.stop_subject(executor_id or "all"), encode(request))
