"""What passes between a partition's owner and the executors: claims, their heartbeats, and stops."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from nats.aio.msg import Msg

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.fleet import read_heartbeats
from waterclock.core.jetstream.nats_client import Disconnected
from waterclock.core.jetstream.protocol import publish_command
from waterclock.proto import names
from waterclock.proto.codec import decoder, encode
from waterclock.proto.heartbeats import ExecutorHeartbeat, read_heartbeat
from waterclock.proto.work import ClaimReply, ClaimRequest, StopRequest
from waterclock.scheduler.credit import Credit
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.ports import Claim

_SLOTS_EVERY = 5.0
_SLOTS_SOON = 0.25
"""How soon they are read again when there is work of which it is not known who serves it. If that does not tell, it
takes twice as long each time: there may be nobody."""

_log = logging.getLogger(__name__)
_decode = decoder(ClaimRequest)


class ExecutorLink:
    def __init__(self, connection: Connection, control: Bucket, partition: int) -> None:
        self._connection = connection
        self._control = control
        self._partition = partition

    @asynccontextmanager
    async def claims(self, receive: Callable[[Claim], None]) -> AsyncIterator[None]:
        async def asked(message: Msg) -> None:
            async def answer(reply: ClaimReply) -> None:
                """Lost while the server is away; the executor asks again."""
                broadcast(message.reply, encode(reply))

            try:
                request = _decode(message.data)
            except (ValueError, RecursionError):
                _log.warning("a claim that is none", extra={"subject": message.subject})
                return
            receive(Claim(request, answer))

        broadcast = Broadcast(self._connection)
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
        key = names.member_key("executor", executor_id)
        entry = await until_known(key, partial(self._control.get, key))
        if entry is None:
            return False
        heartbeat = read_heartbeat(entry.value, ExecutorHeartbeat)
        if heartbeat is None:
            # Of another version. It lives, so the claim waits until it is gone: that must not end the partition.
            _log.warning("a heartbeat that cannot be read", extra={"executor": executor_id})
            return True
        return heartbeat.more or run_id in heartbeat.running

    async def stop(self, executor_id: str | None, request: StopRequest) -> None:
        subject = names.stop_subject(executor_id or "all")
        command = publish_command(subject, "", None, encode(request))
        while True:
            await self._connection.connected()
            try:
                return self._connection.nc.send(command)
            except Disconnected:
                await asyncio.sleep(0)


async def follow_slots(control: Bucket, credit: Credit, wanted: asyncio.Event) -> None:
    """Who serves what, until cancelled. `wanted`: set while there is work of which that is not known. Otherwise a new
    executor counts after a few seconds: that is soon enough for a limit."""
    soon = _SLOTS_SOON
    while True:
        try:
            executors = await read_heartbeats(control, "executor", ExecutorHeartbeat)
        except LogError as error:
            _log.info("the executors' heartbeats cannot be read: %s", error)
        else:
            credit.set_slots(executors)
        if credit.lacks_slots:
            soon = min(2 * soon, _SLOTS_EVERY)
        else:
            soon = _SLOTS_SOON
            wanted.clear()
        await asyncio.sleep(soon)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SLOTS_EVERY - soon):
                await wanted.wait()
