"""The SDK: a program's own functions as handlers of jobs."""

import importlib
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct

from waterclock.executor.context import Context
from waterclock.proto import names

__all__ = ["Context", "RegisteredHandler", "Worker", "load_workers"]

AsyncHandler = Callable[[Context, Any], Awaitable[Any]]
SyncHandler = Callable[[Context, Any], Any]
AnyHandler = AsyncHandler | SyncHandler
H = TypeVar("H", bound=AnyHandler)

RunIn = Literal["loop", "thread", "process"]


class RegisteredHandler(Struct, frozen=True, kw_only=True):
    """A handler and where it runs."""

    name: str
    function: AnyHandler
    run_in: RunIn
    is_async: bool


class Worker:
    """Handlers that share slots.

    worker = Worker(queue="default", tier="light", slots=64)

    @worker.handler("email_send")
    async def email_send(context, payload): ...

    worker.run()
    """

    def __init__(self, queue: str = "default", tier: str = "light", slots: int = 64) -> None:
        if not names.is_user_id(queue):
            raise ValueError(f"queue: expected at most 64 letters, digits, _ and -, found {queue!r}")
        if tier not in names.TIERS:
            raise ValueError(f"tier: expected one of {', '.join(names.TIERS)}, found {tier!r}")
        if slots < 1:
            raise ValueError(f"slots: expected at least 1, found {slots}")
        self.queue = queue
        self.tier = tier
        self.slots = slots
        self.handlers: dict[str, RegisteredHandler] = {}

    def handler(self, name: str, *, run_in: RunIn | None = None) -> Callable[[H], H]:
        """Serve the jobs whose `job_type` is `name`.

        An `async def` runs in the event loop; a `def` runs in a thread, or in a process of its own with
        `run_in="process"`, or in the loop itself with `run_in="loop"` if it never blocks.
        """
        if not names.is_user_id(name):
            raise ValueError(f"name: expected at most 64 letters, digits, _ and -, found {name!r}")
        if name in self.handlers:
            raise ValueError(f"there is a handler {name!r} already")

        def register(function: H) -> H:
            is_async = inspect.iscoroutinefunction(function)
            where: RunIn = run_in or ("loop" if is_async else "thread")
            if is_async and where != "loop":
                raise ValueError(f"{name}: an async handler runs in the loop, not in a {where}")
            self.handlers[name] = RegisteredHandler(
                name=name, function=function, run_in=where, is_async=is_async
            )
            return function

        return register

    def run(self, **settings: object) -> None:
        """Serve until SIGTERM or SIGINT. Settings are found as for `waterclock executor`, or given by name."""
        from waterclock.executor.service import serve_worker

        raise SystemExit(serve_worker(self, settings))


def load_workers(paths: Sequence[str]) -> list[Worker]:
    """Import workers named as `MODULE:NAME`, also from the directory in which the command was started."""
    if paths and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return [_load_worker(path) for path in paths]


def _load_worker(path: str) -> Worker:
    from waterclock.core.runtime.settings import SettingsError

    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise SettingsError(
            "worker", "a module that can be imported", f"{path}: {error}", "worker"
        ) from error
    worker = getattr(module, name, None)
    if not isinstance(worker, Worker):
        raise SettingsError("worker", f"a Worker called {name} in {module_name}", repr(worker), "worker")
    return worker
