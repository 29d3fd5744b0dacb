"""Calls over NATS: a method and its request in, the answer or the service's own error out."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import nats.errors
from msgspec import Struct
from nats.aio.msg import Msg

from waterclock.api.client.discovery import Endpoint
from waterclock.api.client.messages import (
    HEADER_ROOM,
    NOT_LET_IN,
    SILENCE_SECONDS,
    answer_of,
    check_size,
    encode,
)
from waterclock.api.client.pace import SATURATED_PATIENCE, Pace
from waterclock.api.errors import Saturated, Unauthenticated, Unavailable, Unreachable
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LoginRefused, LogUnavailable
from waterclock.proto.methods import Method

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")
T = TypeVar("T")

log = logging.getLogger(__name__)

_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)


class Wire:
    """Repeats a call that got no answer, unchanged, until `patience` seconds have passed; and one that was refused
    because the system is behind, until `saturated_patience` seconds have.

    So a request that changes something must carry the key under which the service recognises a repeat.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        token: str | None,
        timeout: float,
        patience: float,
        saturated_patience: float = SATURATED_PATIENCE,
    ) -> None:
        self._connection = connection
        self._headers = {"Authorization": f"Bearer {token}"} if token else None
        self._timeout = timeout
        self._patience = patience
        self._pace = Pace(log.warning, saturated_patience)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        endpoint: Endpoint,
        *,
        timeout: float,
        patience: float,
        saturated_patience: float = SATURATED_PATIENCE,
    ) -> AsyncIterator["Wire"]:
        try:
            async with Connection.open(
                endpoint.url,
                name="waterclock-client",
                credentials=endpoint.credentials,
                tls=endpoint.tls(),
                inbox_prefix=endpoint.inbox,
                timeout=patience,
            ) as connection:
                yield cls(
                    connection,
                    token=endpoint.token,
                    timeout=timeout,
                    patience=patience,
                    saturated_patience=saturated_patience,
                )
        except LoginRefused as error:
            raise Unauthenticated.because(f"{error}: {NOT_LET_IN}") from error
        except LogUnavailable as error:
            raise Unreachable(str(error)) from error

    async def call(self, method: Method[Q, A], request: Q, *, saturated_patience: float | None = None) -> A:
        """`saturated_patience`: if another than usual."""
        data = encode(request)
        check_size(data, self._connection.nc.max_payload - HEADER_ROOM)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                return await self._answered(method, data)
            except Saturated as refused:
                await asyncio.sleep(self._pace.wait_seconds(refused, loop.time() - began, saturated_patience))

    async def _answered(self, method: Method[Q, A], data: bytes) -> A:
        """The answer, or a refusal that was said by somebody who is there."""
        started = asyncio.get_running_loop().time()
        for pause in _pauses():
            try:
                return _answer(await self._request(method.subject, data), method.answer)
            except Saturated:
                raise
            except (Unreachable, Unavailable) as error:
                waits = max(pause, (error.retry_after or 0) if isinstance(error, Unavailable) else 0)
                if asyncio.get_running_loop().time() - started + waits > self._patience:
                    raise
                await asyncio.sleep(waits)
        raise AssertionError("pauses never end")

    async def follow(self, method: Method[Q, A], request: Callable[[], Q]) -> AsyncIterator[A]:
        """A streaming call, to its end; when it breaks it is asked again, with the request as it is by then."""
        loop = asyncio.get_running_loop()
        last_answer = loop.time()
        while True:
            try:
                async with aclosing(self._stream(method, request())) as answers:
                    async for answer in answers:
                        last_answer = loop.time()
                        yield answer
                return
            except (Unreachable, Unavailable):
                if loop.time() - last_answer > self._patience:
                    raise
                await asyncio.sleep(0.2)

    async def off_loop(self, function: Callable[[], T]) -> T:
        """Runs something that blocks beside the loop."""
        return await asyncio.to_thread(function)

    async def _stream(self, method: Method[Q, A], request: Q) -> AsyncGenerator[A, None]:
        nc = self._connection.nc
        inbox = nc.new_inbox()
        subscription = await nc.subscribe(inbox)
        try:
            await nc.publish(method.subject, encode(request), reply=inbox, headers=self._headers)
            while True:
                message = await subscription.next_msg(timeout=SILENCE_SECONDS)
                if not message.data and not message.headers:
                    return
                yield _answer(message, method.answer)
        except (nats.errors.Error, OSError) as error:
            raise Unreachable(f"the stream broke: {error or type(error).__name__}") from error
        finally:
            if nc.is_connected:
                await subscription.unsubscribe()

    async def _request(self, subject: str, data: bytes) -> Msg:
        try:
            return await self._connection.request(subject, data, timeout=self._timeout, headers=self._headers)
        except LogUnavailable as error:
            raise Unreachable(f"no answer from the waterclock service: {error}") from error


def _pauses() -> Iterator[float]:
    for pause in _PAUSES:
        yield pause * random.uniform(0.8, 1.2)
    while True:
        yield random.uniform(0.8, 1.2)


def _answer(message: Msg, kind: type[A]) -> A:
    return answer_of(
        message.data, message.headers or {}, kind, nobody="no waterclock service listens on this NATS"
    )
