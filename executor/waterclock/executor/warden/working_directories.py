"""Working directories: made ahead, removed together, by a thread; and used again where nobody would notice.

Making and removing one is a matter for the file system's journal, which waits while others sync to disk, as
nats-server does all the time. Nobody but the job that ends should wait for that. Most jobs leave the directory as it
was made: nothing in it, and an inode that never changed. Then there is nothing to remove.
"""

import asyncio
import os
import shutil
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

_AHEAD = 16
_KEPT = 64

Look = tuple[int, int, int, int]
"""What of an inode changes when anybody changes it: when, and the access that was given to it."""


class Directories:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = count(1)
        self._ready: deque[str] = deque()
        self._made: dict[str, Look] = {}
        """Every directory there is, as it looked when it was new."""
        self._used: list[str] = []
        self._removed: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="directories")

    def take(self) -> str:
        """An empty directory that is nobody else's."""
        return self._ready.popleft() if self._ready else self._make()

    def take_back(self, directory: str) -> bool:
        """Keep a directory for somebody else if it is as new, and if nobody can be in it any more: see that first."""
        new = self._made.get(directory)
        if new is None or _look(directory) != new or os.listdir(directory) or len(self._ready) >= _KEPT:
            return False
        self._ready.append(directory)
        return True

    async def remove(self, directory: str) -> None:
        """Remove a directory and all that is in it, together with those of others who ask meanwhile."""
        self._made.pop(directory, None)
        self._used.append(directory)
        while directory in self._used:
            if self._removed is None:
                self._removed = asyncio.ensure_future(self._remove_together())
            await asyncio.shield(self._removed)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _remove_together(self) -> None:
        directories = list(self._used)
        wanted = max(0, _AHEAD - len(self._ready))
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
        look = _look(directory)
        assert look is not None
        self._made[directory] = look
        return directory


def _look(directory: str) -> Look | None:
    try:
        found = os.lstat(directory)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_mode, found.st_uid, found.st_gid
