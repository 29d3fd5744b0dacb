"""Which function answers which method. Handlers register themselves; a test checks that every row has one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from waterclock.api.auth.caller import Caller
from waterclock.proto.methods import Method

if TYPE_CHECKING:
    from waterclock.api.application import Application

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")

Handler = Callable[["Application", Q, Caller], Awaitable[A]]
StreamHandler = Callable[["Application", Q, Caller], AsyncIterator[A]]

_HANDLERS: dict[str, Handler[Any, Any]] = {}
_STREAMS: dict[str, StreamHandler[Any, Any]] = {}


def handles(method: Method[Q, A]) -> Callable[[Handler[Q, A]], Handler[Q, A]]:
    def register(handler: Handler[Q, A]) -> Handler[Q, A]:
        _HANDLERS[method.name] = handler
        return handler

    return register


def streams(method: Method[Q, A]) -> Callable[[StreamHandler[Q, A]], StreamHandler[Q, A]]:
    def register(handler: StreamHandler[Q, A]) -> StreamHandler[Q, A]:
        _STREAMS[method.name] = handler
        return handler

    return register


def handler_of(method: Method[Q, A]) -> Handler[Q, A]:
    return _HANDLERS[method.name]


def stream_of(method: Method[Q, A]) -> StreamHandler[Q, A]:
    return _STREAMS[method.name]
