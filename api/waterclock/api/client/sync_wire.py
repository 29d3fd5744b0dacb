"""The asynchronous wire for callers without a loop: it runs on one in a thread, and every call waits for it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from msgspec import Struct

from waterclock.api.client.discovery import Endpoint
from waterclock.api.client.pace import SATURATED_PATIENCE
from waterclock.api.client.wire import Wire
from waterclock.proto.methods import Method

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")
T = TypeVar("T")


class SyncWire:
    def __init__(self, wire: Wire, loop: asyncio.AbstractEventLoop) -> None:
        self._wire = wire
        self._loop = loop

    @classmethod
    @contextmanager
    def open(
        cls,
        endpoint: Endpoint,
        *,
        timeout: float,
        patience: float,
        saturated_patience: float = SATURATED_PATIENCE,
    ) -> Iterator["SyncWire"]:
        with _loop_in_thread() as loop:
            context = Wire.open(
                endpoint, timeout=timeout, patience=patience, saturated_patience=saturated_patience
            )
            wire = _run(context.__aenter__(), loop)
            try:
                yield cls(wire, loop)
            finally:
                _run(context.__aexit__(None, None, None), loop)

    def call(self, method: Method[Q, A], request: Q, *, saturated_patience: float | None = None) -> A:
        return _run(self._wire.call(method, request, saturated_patience=saturated_patience), self._loop)

    def follow(self, method: Method[Q, A], request: Callable[[], Q]) -> Iterator[A]:
        answers = cast(AsyncGenerator[A, None], self._wire.follow(method, request))
        try:
            while found := _run(_next(answers), self._loop):
                yield found[0]
        finally:
            _run(_close(answers), self._loop)

    def off_loop(self, function: Callable[[], T]) -> T:
        return function()


async def _next(answers: AsyncIterator[A]) -> tuple[A] | None:
    """The next answer, in a tuple since an answer may be anything; None at the end."""
    try:
        return (await anext(answers),)
    except StopAsyncIteration:
        return None


async def _close(answers: AsyncGenerator[A, None]) -> None:
    await answers.aclose()


def _run(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="waterclock-client", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
