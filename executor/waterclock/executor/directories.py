"""Working directories: made ahead, removed together, by a thread.

Making and removing one is a matter for the file system's journal, which waits while others sync to disk, as
nats-server does all the time. Nobody but the job that ends should wait for that.
"""

import asyncio
import os
import shutil
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

_AHEAD = 16


class Directories:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = count(1)
        self._ready: deque[str] = deque()
        self._used: list[str] = []
        self._removed: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="directories")

    def take(self) -> str:
        """An empty directory that is nobody else's."""
        return self._ready.popleft() if self._ready else self._make()

    async def remove(self, directory: str) -> None:
        """Remove a directory and all that is in it, together with those of others who ask meanwhile."""
        self._used.append(directory)
        while directory in self._used:
            if self._removed is None:
                self._removed = asyncio.ensure_future(self._remove_together())
            await asyncio.shield(self._removed)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _remove_together(self) -> None:
        directories = list(self._used)
        wanted = _AHEAD - len(self._ready)
        try:
            loop = asyncio.get_running_loop()
            self._ready.extend(await loop.run_in_executor(self._thread, self._change, directories, wanted))
        finally:
            del self._used[: len(directories)]
            self._removed = None

    def _change(self, old: list[str], wanted: int) -> list[str]:
        """In the thread: remove the old ones and make some new."""
        for directory in old:
            try:
                os.rmdir(directory)
            except OSError:
                shutil.rmtree(directory, ignore_errors=True)
        return [self._make() for _ in range(wanted)]

    def _make(self) -> str:
        directory = f"{self._root}/{next(self._numbers)}"
        os.mkdir(directory, 0o700)
        return directory
