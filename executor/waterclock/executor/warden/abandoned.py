"""Processes whose warden was killed together with its executor: nobody watches them, so the next executor ends them.

Each process of a job has in its environment which warden started it: by pid, start time and pid namespace, so that no
other process is ever taken for that warden. A mark whose warden is gone means that its bearer was left to itself: a
warden that ends in good order, or outlives its executor, leaves nothing behind.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from waterclock.executor.warden import process_tree

_PAUSE = 0.01
_PATIENCE = 5.0
_PREFIX = "waterclock-"


def end_forsaken() -> int:
    """Kill them, and what they have started since. Returns how many there were, once they are gone.

    Not ourselves, nor those we descend from: an executor may have been started by a job.
    """
    give_up = time.monotonic() + _PATIENCE
    ours = {os.getpid(), *process_tree.ancestors()}
    ended: set[int] = set()
    while (left := _forsaken() - ours) and time.monotonic() < give_up:
        for member in {each for pid in left for each in process_tree.family(pid)} - ours:
            ended.add(member)
            _kill(member)
        time.sleep(_PAUSE)
    return len(ended)


def room_prefix() -> str:
    """What the name of the directory begins with in which this process keeps those of its jobs."""
    return f"{_PREFIX}{process_tree.incarnation()}-"


def remove_forsaken_rooms(root: Path) -> None:
    """Directories of executors that are gone, with all that their jobs have left there."""
    for room in root.glob(f"{_PREFIX}*-*"):
        owner = room.name.removeprefix(_PREFIX).rpartition("-")[0]
        if _is_gone(owner) and room.is_dir() and not room.is_symlink() and room.stat().st_uid == os.getuid():
            shutil.rmtree(room, ignore_errors=True)


def _forsaken() -> set[int]:
    return {
        pid for pid in _all() if (mark := process_tree.mark_of(pid)) and _is_gone(mark.rpartition(".")[0])
    }


def _is_gone(incarnation: str) -> bool:
    """Whether a process of our own pid namespace has ended. Of others we know nothing."""
    namespace, _, rest = incarnation.partition(".")
    pid, _, started = rest.partition(".")
    if namespace != process_tree.namespace() or not pid.isdigit() or not started.isdigit():
        return False
    return process_tree.start_time(int(pid)) != int(started)


def _all() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
