"""One request from admitted to answered, whichever way it came in."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from msgspec import Struct
from prometheus_client import Histogram

from waterclock.api import commands, explain, queries
from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import inward, outward, refusals_outward
from waterclock.api.errors import Unavailable
from waterclock.api.metrics import SECONDS, STREAMS
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handler_of, import_handlers, stream_of
from waterclock.core.jetstream.errors import LogFull, LogUnavailable
from waterclock.core.store.store import StoreError
from waterclock.proto.methods import Method

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")

_RETRY_AFTER = 1.0

import_handlers(commands, explain, queries)


@cache
def _seconds(method: str) -> Histogram:
    return SECONDS.labels(method)


async def answer(app: Application, method: Method[Q, A], request: Q, caller: Caller) -> A:
    caller.must(method)
    request = inward(caller.namespace, request)
    with _seconds(method.name).time(), _said_to(caller):
        return outward(caller.namespace, await handler_of(method)(app, request, caller))


async def answers(
    app: Application, method: Method[Q, A], request: Q, caller: Caller
) -> AsyncGenerator[A, None]:
    caller.must(method)
    request = inward(caller.namespace, request)
    with app.streams.one_more(caller.actor), STREAMS.labels(method.name).track_inprogress(), _said_to(caller):
        async for item in stream_of(method)(app, request, caller):
            yield outward(caller.namespace, item)


@contextmanager
def _said_to(caller: Caller) -> Iterator[None]:
    """Whatever goes wrong becomes a refusal in the caller's own terms."""
    with refusals_outward(caller.namespace), outages_as_refusals(), caller.answerable():
        yield


@contextmanager
def outages_as_refusals() -> Iterator[None]:
    """Whatever cannot be reached is a 503 with a time after which to try again."""
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
