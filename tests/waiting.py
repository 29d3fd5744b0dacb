"""Wait for a condition, never for a time."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path


async def until(
    condition: Callable[[], object], *, within: float = 10.0, what: str = "the condition"
) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"waited {within:g} s in vain for {what}"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
