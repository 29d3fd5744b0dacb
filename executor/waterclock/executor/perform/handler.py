"""Python handlers: in the event loop, in a thread, or in a process of their own."""

import asyncio
import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import msgspec

from waterclock.executor.attempt_record import Attempt, Failed, Result, Succeeded
from waterclock.executor.context import Context, HandlerMessage
from waterclock.executor.in_flight import RunningAttempt, StopCause
from waterclock.executor.logs.output import OutputLog, OutputLogs
from waterclock.executor.perform.handler_process import HandlerProcesses
from waterclock.executor.perform.results import encode_output, result_of_exception
from waterclock.executor.worker import RegisteredHandler
from waterclock.proto.heartbeats import Progress
from waterclock.proto.spec import Handler

_NO_OUTPUT = Succeeded()

Secrets = Callable[[str, str], str]
"""The value of a secret by its namespace and name; raises SecretMissing."""


class HandlerPerformer:
    def __init__(
        self,
        handlers: Mapping[str, RegisteredHandler],
        slots: int,
        outputs: OutputLogs,
        secrets: Secrets,
    ) -> None:
        self._handlers = handlers
        self._secrets = secrets
        self._outputs = outputs
        self._threads = HandlerThreads(slots)
        self._processes = HandlerProcesses()

    @classmethod
    @contextmanager
    def open(
        cls, handlers: Mapping[str, RegisteredHandler], slots: int, outputs: OutputLogs, secrets: Secrets
    ) -> Iterator["HandlerPerformer"]:
        performer = cls(handlers, slots, outputs, secrets)
        try:
            yield performer
        finally:
            performer._processes.close()
            performer._threads.close()

    async def perform(self, attempt: Attempt, running: RunningAttempt) -> Result:
        task = attempt.item.spec.task
        assert isinstance(task, Handler)
        handler = self._handlers.get(task.handler)
        if handler is None:
            return Failed(reason=f"this worker has no handler {task.handler}")
        kind = _ThreadContext if handler.run_in == "thread" else _HandlerContext
        context = kind(attempt, running, self._outputs, self._secrets)
        payload = attempt.item.spec.payload
        result: Result
        try:
            if handler.is_async:
                running.cancel_task_on_stop()
                value = await handler.function(context, payload)
            elif handler.run_in == "thread":
                value = await self._threads.call(handler.function, context, payload, running=running)
            elif handler.run_in == "process":
                result = await self._processes.call(
                    handler.function, attempt, context._send, running, context.secret
                )
                return await context._save(result)
            else:
                value = handler.function(context, payload)
            result = _NO_OUTPUT if value is None else Succeeded(output=encode_output(value))
        except (asyncio.CancelledError, Interrupted):
            result = running.result_of_cancel()
        except Exception as error:
            result = result_of_exception(error, running.secret_values)
        finally:
            running.clear_interrupt()
        return result if context._output is None else await context._save(result)


class _HandlerContext(Context):
    """Receives what a handler logs and reports. The log is opened with its first line: most handlers have none."""

    __slots__ = ("_output", "_outputs", "_running", "_secrets")

    def __init__(
        self, attempt: Attempt, running: RunningAttempt, outputs: OutputLogs, secrets: Secrets
    ) -> None:
        self._attempt = attempt
        self._running = running
        self._outputs = outputs
        self._secrets = secrets
        self._output: OutputLog | None = None

    def secret(self, name: str) -> str:
        """The value of a secret, which is masked from now on. Raises SecretMissing."""
        value = self._secrets(self._attempt.item.spec.namespace, name)
        self._running.give_secret(name, value)
        return value

    def _send(self, message: HandlerMessage) -> None:
        if isinstance(message, Progress):
            if self._running.secrets is not None:
                note = self._running.secret_values.mask(message.note)
                message = msgspec.structs.replace(message, note=note)
            self._running.progress = message
            return
        if self._output is None:
            self._output = self._outputs.open(self._attempt, self._running.secret_values)
        self._output.write(message)

    async def _save(self, result: Result) -> Result:
        if self._output is None:
            return result
        self._output.finish()
        return await self._output.save(result)


class _ThreadContext(_HandlerContext):
    """What it says is passed on to the loop."""

    __slots__ = ()

    def _send(self, message: HandlerMessage) -> None:
        assert self._running.task is not None
        self._running.task.get_loop().call_soon_threadsafe(super()._send, message)


class Interrupted(BaseException):
    """Raised inside a handler's thread when its attempt is stopped.

    Python delivers it between two of its own instructions, so a call into C that blocks is not interrupted. The
    attempt then lasts until that call returns; it is never reported as over while its thread still runs.
    """


class HandlerThreads:
    """Runs blocking handlers, each call in a thread."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="handler")

    async def call(self, function: Callable[..., Any], *arguments: Any, running: RunningAttempt) -> Any:
        """Raises Interrupted if the attempt was stopped and its thread obeyed."""
        call = _ThreadCall(function, arguments)
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        running.set_interrupt(call.interrupt)
        try:
            return await future
        finally:
            running.clear_interrupt()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _ThreadCall:
    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._interrupted = False

    def __call__(self) -> Any:
        with self._interruptible():
            return self._function(*self._arguments)

    def interrupt(self, _: StopCause) -> None:
        with self._lock:
            self._interrupted = True
            if self._thread is not None:
                _raise_in(self._thread, Interrupted)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Only in this block may an exception be sent to the thread: after it, the thread is another attempt's."""
        with self._lock:
            if self._interrupted:
                raise Interrupted
            self._thread = threading.get_ident()
        try:
            yield
        finally:
            with self._lock:
                _raise_in(self._thread, None)
                self._thread = None


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Make a thread raise; None revokes an exception that was not delivered yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error) if error is not None else None
    )
