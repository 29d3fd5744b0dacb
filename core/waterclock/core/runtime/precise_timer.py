"""A timer that ends on time. Those of the event loop are cut to whole milliseconds, and late by up to two of them.

Linux has such timers as files (`timerfd`); Python offers them from 3.13 on, so until then libc is asked. Where there
are none, a timer of the loop does.
"""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from math import ceil

_SECOND = 1_000_000_000
_CLOCK_MONOTONIC = 1
_RELATIVE = 0
"""From now on, not an absolute time: libfaketime, which stands in for the wall clock in the fault suite, shifts
absolute timers of the monotonic clock, too."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class PreciseTimer:
    """Calls `end` at the moment that was set last. To be closed in the end."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._file: int | None = None
        self._handle: asyncio.TimerHandle | None = None
        if _libc is not None:
            self._file = _checked(_libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
            self._loop.add_reader(self._file, self._read)

    def set(self, moment: float) -> None:
        """On the monotonic clock, in seconds. Instead of what was set before; never early."""
        if _libc is not None and self._file is not None:
            self._set_file(_libc, self._file, max(1, ceil((moment - time.monotonic()) * _SECOND)))
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(ceil(moment * 1000) / 1000, self._end)

    def cancel(self) -> None:
        if _libc is not None and self._file is not None:
            self._set_file(_libc, self._file, 0)
        elif self._handle is not None:
            self._handle.cancel()

    def close(self) -> None:
        self.cancel()
        if self._file is not None:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = None

    def _set_file(self, libc: ctypes.CDLL, file: int, nanoseconds: int) -> None:
        """So long from now. 0 means never."""
        value = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(nanoseconds, _SECOND)))
        _checked(libc.timerfd_settime(file, _RELATIVE, ctypes.byref(value), None))

    def _read(self) -> None:
        assert self._file is not None
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # it was set anew after it had ended
        self._end()


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
