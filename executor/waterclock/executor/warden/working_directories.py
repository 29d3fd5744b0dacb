"""Working directories of jobs: made ahead and removed in batches by a thread, and reused if they were not touched.

Making or removing one goes through the file system's journal, which waits while others sync to disk, as nats-server
does all the time. Only the job that ends should wait for that. Most jobs leave the directory as it was made: nothing
in it, and an inode that never changed. Such a directory is given to another job.
"""

import asyncio
import os
import shutil
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from waterclock.executor.warden.job_users import JobUsers

_MADE_AHEAD = 16
_MAX_KEPT = 64

Fingerprint = tuple[int, int, int, int]
"""The parts of an inode that change when anything about it is changed."""


class WorkingDirectories:
    def __init__(self, root: Path, users: JobUsers | None = None) -> None:
        self._root = root
        self._users = users
        self._numbers = count(1)
        self._ready: deque[str] = deque()
        self._made: dict[str, Fingerprint] = {}
        """Every directory there is, with its fingerprint when it was new."""
        self._used: list[str] = []
        self._removed: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="directories")

    def take(self) -> str:
        """An empty directory that no other job has."""
        return self._ready.popleft() if self._ready else self._make()

    def take_back(self, directory: str) -> bool:
        """Keep a directory for another job if it is as new. The caller knows that no process can be in it any more."""
        new = self._made.get(directory)
        if (
            new is None
            or _fingerprint(directory) != new
            or os.listdir(directory)
            or len(self._ready) >= _MAX_KEPT
        ):
            return False
        self._ready.append(directory)
        return True

    def owner_of(self, directory: str) -> tuple[int, int] | None:
        """The user and the group whose own a directory is; None where jobs have no users of their own."""
        new = self._made.get(directory)
        return None if self._users is None or new is None else (new[2], new[3])

    async def remove(self, directory: str) -> None:
        """Remove a directory and all that is in it, in one batch with those of other jobs that end meanwhile."""
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
        wanted = max(0, _MADE_AHEAD - len(self._ready))
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
        if self._users is not None:
            os.chown(directory, *self._users.take())
        fingerprint = _fingerprint(directory)
        assert fingerprint is not None
        self._made[directory] = fingerprint
        return directory


def _fingerprint(directory: str) -> Fingerprint | None:
    try:
        found = os.lstat(directory)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_mode, found.st_uid, found.st_gid
