"""Runs attempts. Users import `Worker`, `Context` and what a handler may raise."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waterclock.executor.handler_exceptions import Cancel, Retry, SecretMissing, Snooze
    from waterclock.executor.worker import Context, Worker

__all__ = ["Cancel", "Context", "Retry", "SecretMissing", "Snooze", "Worker"]


def __getattr__(name: str) -> object:
    """Imported on first use: the warden is part of this package, and its process must not load the rest."""
    if name in ("Worker", "Context"):
        from waterclock.executor import worker

        return getattr(worker, name)
    if name in ("Retry", "Snooze", "Cancel", "SecretMissing"):
        from waterclock.executor import handler_exceptions

        return getattr(handler_exceptions, name)
    raise AttributeError(name)
