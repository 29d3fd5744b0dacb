"""Which function answers which method. Handlers register themselves; a test checks that every row has one.

@handles(methods.RUNS_GET)
async def get(app: Application, request: RunRef, caller: Caller) -> Run: ...
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, TypeVar

from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.proto.methods import Method

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")

Handler = Callable[[Application, Q, Caller], Awaitable[A]]
StreamHandler = Callable[[Application, Q, Caller], AsyncIterator[A]]

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


def import_handlers(*packages: ModuleType) -> None:
    """Import every module of these packages, so that what is in them has registered itself."""
    for package in packages:
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")


def handler_of(method: Method[Q, A]) -> Handler[Q, A]:
    return _HANDLERS[method.name]


def stream_of(method: Method[Q, A]) -> StreamHandler[Q, A]:
    return _STREAMS[method.name]
