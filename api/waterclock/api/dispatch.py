"""One request from admitted to answered, whichever way it came in."""

from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from waterclock.api.auth.caller import Caller
from waterclock.api.auth.namespaces import inward, outward
from waterclock.api.errors import Unavailable
from waterclock.api.handlers import handler_of, stream_of
from waterclock.api.metrics import SECONDS, STREAMS
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.core.jetstream.errors import LogFull, LogUnavailable
from waterclock.core.store.store import StoreError
from waterclock.proto.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waterclock.api.application import Application

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")

_RETRY_AFTER = 1.0


async def answer(app: "Application", method: Method[Q, A], request: Q, caller: Caller) -> A:
    caller.must(method)
    request = inward(caller.namespace, request)
    with SECONDS.labels(method.name).time(), outages_as_refusals():
        return outward(caller.namespace, await handler_of(method)(app, request, caller))


async def answers(app: "Application", method: Method[Q, A], request: Q, caller: Caller) -> AsyncIterator[A]:
    caller.must(method)
    request = inward(caller.namespace, request)
    with STREAMS.labels(method.name).track_inprogress(), outages_as_refusals():
        async for item in stream_of(method)(app, request, caller):
            yield outward(caller.namespace, item)


@contextmanager
def outages_as_refusals() -> "Iterator[None]":
    try:
        yield
    except LogUnavailable as error:
        raise Unavailable.because(f"the log cannot be reached: {error}", retry_after=_RETRY_AFTER) from error
    except StoreError as error:
        raise Unavailable.because(
            f"the store cannot be reached: {error}", retry_after=_RETRY_AFTER
        ) from error
    except ReadModelsAway as error:
        raise Unavailable.because(
            f"the read models cannot be reached: {error}", retry_after=_RETRY_AFTER
        ) from error
    except LogFull as error:
        raise Unavailable.because(f"the log is full: {error}", retry_after=30) from error
