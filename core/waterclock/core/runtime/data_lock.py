"""One `waterclock up` for each data directory."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL = 0.05


class DataInUse(Exception):
    """Somebody else runs on this directory."""


@contextmanager
def locked(data: Path, *, patience: float = 10.0) -> Iterator[int]:
    """Hold the directory; yields the lock's descriptor.

    Servers that write below the directory inherit the descriptor, and the lock lasts as long as any holder. So
    when its owner was killed, the next one waits here until the last of its servers is gone.
    """
    descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(descriptor, data, patience)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, data: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode()
            if _is_alive(owner) or time.monotonic() > deadline:
                raise DataInUse(f"{data} is in use by another `waterclock up` (process {owner})") from None
        time.sleep(_POLL)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
