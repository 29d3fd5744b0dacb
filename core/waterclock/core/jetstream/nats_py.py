"""nats-py, imported for what we need of it.

It imports aiohttp if that is there, for WebSockets that we do not speak: two thirds of the time a command line takes
to start. Import its names from here, so that this happens before anybody imports nats itself.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Client", "Msg", "NatsError", "Parser", "ProtocolError"]


@contextmanager
def _pretending_absent(module: str) -> Iterator[None]:
    modules: Any = sys.modules
    if module in modules:
        yield
        return
    modules[module] = None
    try:
        yield
    finally:
        del modules[module]


with _pretending_absent("aiohttp"):
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.errors import Error as NatsError
    from nats.errors import ProtocolError
    from nats.protocol.parser import Parser
