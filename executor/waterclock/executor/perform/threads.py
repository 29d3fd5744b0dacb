"""Blocking handlers: each call in a thread, and as well as Python can, stoppable."""

import asyncio
import ctypes
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from waterclock.executor.attempt.in_hand import Cause, Running


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
