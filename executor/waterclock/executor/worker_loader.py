"""Workers named as `MODULE:NAME`, imported from where the command was started."""

import importlib
import os
import sys
from collections.abc import Sequence

from waterclock.core.runtime.settings import SettingsError
from waterclock.executor.worker import Worker


def load_workers(paths: Sequence[str]) -> list[Worker]:
    if paths and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return [_load(path) for path in paths]


def _load(path: str) -> Worker:
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
