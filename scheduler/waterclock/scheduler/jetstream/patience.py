"""Calls of the log that may be repeated, repeated until they are answered.

A pass never hears that the log is away: it waits, and goes on where it was. What is published is repeated by the
publisher, which alone knows the message id; this is for what is read, and for what may be done twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from waterclock.core.jetstream.errors import LogFull, LogUnavailable, NotAllowed, reason_of

T = TypeVar("T")

_PAUSE = 0.1
_log = logging.getLogger(__name__)


async def until_known(what: str, call: Callable[[], Awaitable[T]]) -> T:
    """The call's answer. `what` it is for, for the log: said once, when it has to wait."""
    said = False
    while True:
        try:
            return await call()
        except NotAllowed:
            raise
        except (LogUnavailable, LogFull) as error:
            if not said:
                _log.warning("%s waits for the log: %s", what, reason_of(error))
                said = True
        await asyncio.sleep(_PAUSE)
