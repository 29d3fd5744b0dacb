"""Wait for what only a question to the server can tell."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(
    ask: Callable[[], Awaitable[T]], wanted: Callable[[T], bool], *, within: float = 10.0
) -> T:
    """The first answer that is wanted."""
    deadline = time.monotonic() + within
    while not wanted(answer := await ask()):
        assert time.monotonic() < deadline, f"still {answer!r} after {within:g} s"
        await asyncio.sleep(0.01)
    return answer
