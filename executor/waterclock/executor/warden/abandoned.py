"""Processes whose warden was killed together with its executor: nobody watches them, so the next executor kills them.

Each process of a job has a marker in its environment that names the warden which started it: by pid, start time and pid
namespace, so that no other process is ever taken for that warden. A marker whose warden is gone means that the process
was abandoned: a warden that ends in good order, or outlives its executor, leaves nothing behind.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from waterclock.executor.warden import process_tree

_PAUSE_SECONDS = 0.01
_MAX_SECONDS = 5.0
_PREFIX = "waterclock-"


def kill_abandoned() -> int:
    """Kill them and their descendants. Returns how many there were, once they are gone.

    Not ourselves, nor those we descend from: an executor may have been started by a job.
    """
    deadline = time.monotonic() + _MAX_SECONDS
    ours = {os.getpid(), *process_tree.ancestors()}
    killed: set[int] = set()
    while (left := _abandoned() - ours) and time.monotonic() < deadline:
        for member in {each for pid in left for each in process_tree.family(pid)} - ours:
            killed.add(member)
            _kill(member)
        time.sleep(_PAUSE_SECONDS)
    return len(killed)


def directory_prefix() -> str:
    """The start of the name of the directory that holds the working directories of this process's jobs."""
    return f"{_PREFIX}{process_tree.incarnation()}-"


def remove_abandoned_directories(root: Path) -> None:
    """Directories of executors that are gone, with all that their jobs have left there."""
    for directory in root.glob(f"{_PREFIX}*-*"):
        owner = directory.name.removeprefix(_PREFIX).rpartition("-")[0]
        if (
            _is_gone(owner)
            and directory.is_dir()
            and not directory.is_symlink()
            and directory.stat().st_uid == os.getuid()
        ):
            shutil.rmtree(directory, ignore_errors=True)


def _abandoned() -> set[int]:
    return {
        pid
        for pid in _all_pids()
        if (marker := process_tree.marker_of(pid)) and _is_gone(marker.rpartition(".")[0])
    }


def _is_gone(incarnation: str) -> bool:
    """Whether a process of our own pid namespace has ended. Of others we know nothing."""
    namespace, _, rest = incarnation.partition(".")
    pid, _, started = rest.partition(".")
    if namespace != process_tree.namespace() or not pid.isdigit() or not started.isdigit():
        return False
    return process_tree.start_time(int(pid)) != int(started)


def _all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
