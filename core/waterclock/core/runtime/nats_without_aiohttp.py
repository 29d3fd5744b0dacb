"""Import nats-py without aiohttp.

nats-py loads aiohttp for WebSockets if it is installed. That takes longer than everything else a command line
imports, and we use NATS over TCP. aiohttp stays importable for those who need it.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

# Their module is slow to load, and they add nothing at run time.
if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = object

_TRANSPORT = "nats.aio.transport"


def import_nats_without_aiohttp() -> None:
    """Call before the first import of nats. May be called again."""
    if _TRANSPORT not in sys.modules and not any(
        isinstance(finder, _TransportFinder) for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _TransportFinder())


class _TransportFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _TRANSPORT:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _WithoutAiohttp(spec.loader)
        return spec


class _WithoutAiohttp(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        hidden = "aiohttp" not in sys.modules
        if hidden:
            # None makes an import fail, which nats-py takes as "not installed".
            sys.modules["aiohttp"] = None  # type: ignore[assignment]
        try:
            self._loader.exec_module(module)
        finally:
            if hidden:
                del sys.modules["aiohttp"]
