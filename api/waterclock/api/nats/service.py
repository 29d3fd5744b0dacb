"""The method table over NATS: service `waterclock`, one endpoint a method, found by `$SRV.INFO`."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, cast

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.micro import add_service
from nats.micro.request import Request
from nats.micro.service import EndpointStats

from waterclock.api import request_bodies
from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.dispatch import answer, answers
from waterclock.api.errors import Refused, Unavailable
from waterclock.api.metrics import REQUESTS
from waterclock.proto.methods import METHODS, Method
from waterclock.proto.names import SERVICE
from waterclock.proto.problem import Problem, retry_after

log = logging.getLogger(__name__)

_ANSWERED = ("_R_.", "_INBOX")
"""Where a request may want its answer: in an inbox, or in what the server makes of one in another account."""
_ADDRESS = "nats"
"""Where a request came from, where the server does not say."""

_MAX_IN_FLIGHT = 256
"""Requests of one method that are answered at once; more wait, and are not in the way of other methods."""
_MAX_OF_ONE_CALLER = 64
"""Of these, as many as one caller may have. The rest of theirs wait without being in the way of others."""
_MAX_WAITING = 20_000
_MAX_WAITING_BYTES = 128 * 1024 * 1024
"""What has come in and is not answered, over all methods. More is refused."""

_MAX_STREAM_SECONDS = 3600.0
"""NATS does not show that a client has left, so no stream lives longer than this."""

_encode = msgspec.json.Encoder().encode


@asynccontextmanager
async def serve(app: Application) -> AsyncIterator[None]:
    """Answers requests while the context is open; those begun are finished, streams are cut."""
    async with asyncio.TaskGroup() as tasks:
        waiting = _Waiting()
        endpoints = {method.subject: _Endpoint(app, method, tasks, waiting) for method in METHODS}
        service = await add_service(
            cast(Client, _InboxOnlyClient(app.connection.nc)),
            name=SERVICE,
            version=version("waterclock"),
            description="Runs every job on time, once, and can explain every run",
            metadata={"instance": app.instance},
            stats_handler=lambda stats: endpoints[stats.subject].fill_in(stats),
        )
        try:
            for subject, endpoint in endpoints.items():
                await service.add_endpoint(
                    name=endpoint.method.name.replace(".", "-"),
                    subject=subject,
                    handler=endpoint,
                    metadata={"scope": endpoint.method.scope, "summary": endpoint.method.summary},
                )
            yield
        finally:
            await service.stop()
            for endpoint in endpoints.values():
                endpoint.cut_streams()


class _Waiting:
    """Requests that have come in and are not answered, and whose turn it is."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @contextmanager
    def counted(self, size: int) -> Iterator[None]:
        self.requests += 1
        self.bytes += size
        try:
            yield
        finally:
            self.requests -= 1
            self.bytes -= size

    def is_full(self, size: int) -> bool:
        return self.requests >= _MAX_WAITING or self.bytes + size > _MAX_WAITING_BYTES

    @asynccontextmanager
    async def turn(self, actor: str) -> AsyncIterator[None]:
        """One of those that a caller may have in hand; waits until it has one."""
        turns, users = self._turns.get(actor) or (asyncio.Semaphore(_MAX_OF_ONE_CALLER), 0)
        self._turns[actor] = turns, users + 1
        try:
            async with turns:
                yield
        finally:
            turns, users = self._turns.pop(actor)
            if users > 1:
                self._turns[actor] = turns, users - 1


class _Endpoint:
    """One method. Requests run beside one another: the subscription would take them one by one."""

    def __init__(
        self, app: Application, method: Method[Any, Any], tasks: asyncio.TaskGroup, waiting: _Waiting
    ) -> None:
        self.method = method
        self._app = app
        self._tasks = tasks
        self._waiting = waiting
        self._slots = asyncio.Semaphore(_MAX_IN_FLIGHT)
        self._streams: set[asyncio.Task[None]] = set()
        self._answered = 0
        self._refused = 0
        self._processing_ns = 0
        """Of the calls that are over: from when they came to the end of their last answer."""
        self._last_error = ""

    async def __call__(self, request: Request) -> None:
        """Returns as soon as the call is under way: what the library measures here is not the call."""
        size = len(request.data)
        if self._waiting.is_full(size):
            refused = Unavailable.because("too many requests wait for an answer", retry_after=1.0)
            await self._refuse(request, refused.problem)
            return
        task = self._tasks.create_task(self._serve(request, size))
        if self.method.streaming:
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)

    def cut_streams(self) -> None:
        for task in self._streams:
            task.cancel()

    def fill_in(self, stats: EndpointStats) -> dict[str, int]:
        """Say of the calls what the library does not know: how long they took, and which were refused."""
        stats.num_errors, stats.last_error = self._refused, self._last_error
        stats.processing_time = self._processing_ns
        stats.average_processing_time = self._processing_ns // max(1, self._answered + self._refused)
        return {
            "answered": self._answered,
            "refused": self._refused,
            "in_flight": _MAX_IN_FLIGHT - self._slots._value,
        }

    async def _serve(self, request: Request, size: int) -> None:
        began = time.perf_counter_ns()
        try:
            await self._serve_or_refuse(request, size)
        finally:
            self._processing_ns += time.perf_counter_ns() - began

    async def _serve_or_refuse(self, request: Request, size: int) -> None:
        try:
            with self._waiting.counted(size):
                await self._answer(request)
            self._answered += 1
            REQUESTS.labels(self.method.name, "nats", 200).inc()
        except Refused as refused:
            self._app.access_log.denied(self.method, refused, _ADDRESS)
            await self._refuse(request, refused.problem)
        except NatsError as error:
            self._refused += 1
            self._last_error = f"answer not sent: {error}"
            log.warning("answer not sent", extra={"method": self.method.name, "error": str(error)})
        except Exception:
            log.exception("request failed", extra={"method": self.method.name})
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            await self._refuse(request, Problem(status=status, title=status.phrase, detail="this is a bug"))

    async def _answer(self, request: Request) -> None:
        caller = self._app.gate.admit_over_nats(self.method, request.headers or {})
        caller = msgspec.structs.replace(caller, address=_ADDRESS)
        if self.method.streaming:
            await self._stream(request, caller)
            return
        async with self._waiting.turn(caller.actor), self._slots:
            await self._app.admission.before_body(self.method, caller.namespace)
            asked = request_bodies.read(request.data, self.method.request)
            await request.respond(_encode(await answer(self._app, self.method, asked, caller)))

    async def _stream(self, request: Request, caller: Caller) -> None:
        await self._app.admission.before_body(self.method, caller.namespace)
        asked = request_bodies.read(request.data, self.method.request)
        if getattr(asked, "stay_seconds", _MAX_STREAM_SECONDS) is None:
            asked = msgspec.structs.replace(asked, stay_seconds=_MAX_STREAM_SECONDS)
        async for item in answers(self._app, self.method, asked, caller):
            await request.respond(_encode(item))
        await request.respond(b"")

    async def _refuse(self, request: Request, problem: Problem) -> None:
        self._refused += 1
        REQUESTS.labels(self.method.name, "nats", problem.status).inc()
        reason = " ".join((problem.detail or problem.title).split())
        self._last_error = f"{problem.status}: {reason}"
        try:
            await request.respond_error(
                str(problem.status),
                reason.encode("ascii", "replace").decode(),
                _encode(problem),
                retry_after(problem),
            )
            if self.method.streaming:
                await request.respond(b"")
        except (NatsError, ValueError) as error:
            log.warning("refusal not sent", extra={"method": self.method.name, "error": str(error)})


class _InboxOnlyClient:
    """As much of a client as a NATS service uses; it takes only requests that want to be answered in an inbox.

    A server lets everybody name any subject for the answer. Whoever names one of the log's would have us write there,
    with our rights: so such a request is dropped.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._nuid = client._nuid

    async def subscribe(self, subject: str, *, cb: Callable[[Msg], Awaitable[None]], **options: Any) -> Any:
        async def received(message: Msg) -> None:
            if message.reply.startswith(_ANSWERED):
                await cb(message)
            else:
                log.warning("asked to answer outside of an inbox", extra={"subject": message.subject})

        return await self._client.subscribe(subject, cb=received, **options)

    async def flush(self) -> None:
        await self._client.flush()
