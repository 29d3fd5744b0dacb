"""The life of a component: one contract, and the main function that keeps it.

A service runs until told to stop. Then it takes nothing new, finishes what it has in hand within the grace
and returns. One that has not returned a little later is cancelled, cleans up and lets the cancellation through.
"""

import asyncio
import gc
import logging
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Protocol

import uvloop

from waterclock.core.runtime import structured_logs
from waterclock.core.runtime.metrics import serving_metrics
from waterclock.core.runtime.own_process import close_to_inspection
from waterclock.core.runtime.settings import Settings, SettingsError

_ALLOCATIONS_BETWEEN_COLLECTIONS = 200_000
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_NOT_IN_SUBJECTS = re.compile(r"[^A-Za-z0-9_-]+")


READY_FD = "WATERCLOCK_READY_FD"

WRONG_USAGE = 2
"""The exit code that says: another start would not help, somebody has to change a setting."""

_RECURSION_LIMIT = 3_000
"""What the version before took was nested up to Python's own limit of 1,000; who passes it on needs a little more."""

_MARGIN = 2.0
"""What a service gets beyond the grace to hand back what it could not finish."""

_log = logging.getLogger(__name__)


class StopSignal:
    """Set once, never cleared. Setting it again changes nothing."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


class Service(Protocol):
    async def run(self, stop: StopSignal) -> None:
        """Return when `stop` is set and the work in hand is done; raise when it cannot go on."""


Entry = Callable[[Settings, StopSignal], Awaitable[None]]
"""A component's `waterclock.<component>.service.run`."""


def ready() -> None:
    """Tell whoever started this process that it does its work now. Harmless when nobody asked, or twice."""
    descriptor = os.environ.pop(READY_FD, None)
    if descriptor is not None:
        os.write(int(descriptor), b"1")
        os.close(int(descriptor))


def run_service(component: str, entry: Entry, settings: Settings) -> int:
    """The main function of a component's process. Returns its exit code."""
    close_to_inspection()
    structured_logs.setup(component, level=settings.log_level, format=settings.log_format)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))
    with infrequent_garbage_collection(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_stopped(entry, settings))


async def _until_stopped(entry: Entry, settings: Settings) -> int:
    async with AsyncExitStack() as scope:
        if settings.metrics_port is not None:
            await scope.enter_async_context(serving_metrics(settings.host, settings.metrics_port))
        stop = StopSignal()
        service = asyncio.ensure_future(entry(settings, stop))
        _stop_on_signals(service, stop)
        return await exit_code_of(service, stop, grace=settings.grace_seconds + _MARGIN)


def _stop_on_signals(service: "asyncio.Future[None]", stop: StopSignal) -> None:
    def received(number: signal.Signals) -> None:
        if stop.is_set():
            _log.warning("told twice to stop: not waiting any longer", extra={"signal": number.name})
            service.cancel()
        else:
            _log.info("stopping", extra={"signal": number.name})
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received, number)


async def exit_code_of(service: "asyncio.Future[None]", stop: StopSignal, *, grace: float) -> int:
    """Wait for the service; once `stop` is set, at most `grace` seconds."""
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([service, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not service.done():
            await asyncio.wait([service], timeout=grace)
        if not service.done():
            _log.warning("the grace is over: cancelling what is left", extra={"grace_seconds": grace})
            service.cancel()
            await asyncio.wait([service])
    finally:
        stopped.cancel()
    if service.cancelled():
        return 0 if stop.is_set() else 1
    error = service.exception()
    if isinstance(error, SettingsError):
        print(f"waterclock: {' '.join(str(error).split())}", file=sys.stderr)
        return WRONG_USAGE
    if error is not None:
        _log.error("ended by an error", exc_info=error)
        return 1
    if not stop.is_set():
        _log.error("ended although nobody asked it to")
        return 1
    return 0


def instance_id(component: str) -> str:
    """`<component>-<host>-<6 random>`, fit for a token of a subject.

    It names one incarnation of a process: for leases and heartbeats a restarted one is another.
    """
    host = _NOT_IN_SUBJECTS.sub("-", socket.gethostname())[:32]
    return f"{component}-{host}-{''.join(secrets.choice(_ALPHABET) for _ in range(6))}"


@contextmanager
def infrequent_garbage_collection() -> Iterator[None]:
    """Within the scope cycles are looked for only now and then, and never among the objects that exist already.

    Messages are decoded into hundreds of thousands of objects, hardly one of them part of a cycle. With the default
    thresholds the search took 15 % of a rebuild, and a fifth of the time of a scheduler under load.
    """
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
