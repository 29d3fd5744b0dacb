"""Python handlers.

Blocking handlers: each call in a thread, and as well as Python can, stoppable.
"""

import asyncio
import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from waterclock.executor import attempt_record
from waterclock.executor.attempt_record import Attempt
from waterclock.executor.context import Context, Progress, Word
from waterclock.executor.in_flight import Cause, Running, ended_by
from waterclock.executor.logs.output import OutputLog, Outputs
from waterclock.executor.perform.handler_process import Crew
from waterclock.executor.perform.results import encoded, ending_of
from waterclock.executor.worker import Handled
from waterclock.proto.heartbeats import Progress
from waterclock.proto.spec import Handler


class Interrupted(BaseException):
    """Raised inside a handler's thread when its attempt is stopped.

    Python delivers it between two of its own instructions, so a call into C that blocks is not interrupted. The
    attempt then lasts until that call returns; it is never reported as over while its thread still runs.
    """


class Threads:
    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="handler")

    async def call(self, function: Callable[..., Any], *arguments: Any, running: Running) -> Any:
        """Raises Interrupted if the attempt was stopped and its thread obeyed."""
        call = _Call(function, arguments)
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        running.interruptible(call.interrupt)
        try:
            return await future
        finally:
            running.uninterruptible()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Call:
    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._interrupted = False

    def __call__(self) -> Any:
        with self._reachable():
            return self._function(*self._arguments)

    def interrupt(self, _: Cause) -> None:
        with self._lock:
            self._interrupted = True
            if self._thread is not None:
                _raise_in(self._thread, Interrupted)

    @contextmanager
    def _reachable(self) -> Iterator[None]:
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
    """Have a thread raise, or with None forget that it should."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error) if error is not None else None
    )


_NO_OUTPUT = attempt_record.Succeeded()


class HandlerPerformer:
    def __init__(
        self, handlers: Mapping[str, Handled], outputs: Outputs, threads: Threads, crew: Crew
    ) -> None:
        self._handlers = handlers
        self._outputs = outputs
        self._threads = threads
        self._crew = crew

    async def perform(self, attempt: Attempt, running: Running) -> attempt_record.Ending:
        task = attempt.item.spec.task
        assert isinstance(task, Handler)
        handled = self._handlers.get(task.handler)
        if handled is None:
            return attempt_record.Failed(reason=f"this worker has no handler {task.handler}")
        voice = _Voice(self._outputs, attempt, running)
        context = Context(attempt, voice.tell_from_thread if handled.run_in == "thread" else voice.tell)
        payload = attempt.item.spec.payload
        try:
            if handled.is_async:
                running.interruptible(_cancelling(running))
                value = await handled.function(context, payload)
            elif handled.run_in == "thread":
                value = await self._threads.call(handled.function, context, payload, running=running)
            elif handled.run_in == "process":
                return await voice.finished(
                    await self._crew.call(handled.function, attempt, voice.tell, running)
                )
            else:
                value = handled.function(context, payload)
            end: attempt_record.Ending = (
                _NO_OUTPUT if value is None else attempt_record.Succeeded(output=encoded(value))
            )
        except (asyncio.CancelledError, Interrupted):
            end = _stopped(running)
        except Exception as error:
            end = ending_of(error)
        finally:
            running.uninterruptible()
        return end if voice.log is None else await voice.finished(end)


class _Voice:
    """Hears a handler. The log exists from its first line on: most handlers say nothing."""

    __slots__ = ("_attempt", "_outputs", "_running", "log")

    def __init__(self, outputs: Outputs, attempt: Attempt, running: Running) -> None:
        self._outputs = outputs
        self._attempt = attempt
        self._running = running
        self.log: OutputLog | None = None

    def tell(self, word: Word) -> None:
        if isinstance(word, Progress):
            self._running.progress = word
            return
        if self.log is None:
            self.log = self._outputs.open(self._attempt)
        self.log.hear(word)

    async def finished(self, end: attempt_record.Ending) -> attempt_record.Ending:
        if self.log is None:
            return end
        self.log.finish()
        return await self.log.kept(end)

    def tell_from_thread(self, word: Word) -> None:
        assert self._running.task is not None
        self._running.task.get_loop().call_soon_threadsafe(self.tell, word)


def _cancelling(running: Running) -> Callable[[Cause], object]:
    task = running.task
    assert task is not None
    return lambda _: task.cancel()


def _stopped(running: Running) -> attempt_record.Ending:
    """By us, with a cause; or by whoever cancels the executor itself."""
    if running.cause is None:
        raise asyncio.CancelledError
    assert running.task is not None
    running.task.uncancel()
    return ended_by(running.cause)
