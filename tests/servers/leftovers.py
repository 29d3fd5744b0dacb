"""Processes that the test session started and that are still there, also when their parent has gone."""

import os
import secrets
import signal
import time
from pathlib import Path

_MARK = "WATERCLOCK_TEST_SESSION"


def mark_session() -> None:
    """Children inherit it, theirs too: whatever carries the mark was started by this session."""
    os.environ[_MARK] = secrets.token_hex(8)


def leftovers(grace: float) -> dict[int, str]:
    """Pid and command line of what is left after `grace` seconds."""
    deadline = time.monotonic() + grace
    while (found := _marked()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def kill(pids: dict[int, str]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _marked() -> dict[int, str]:
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    found = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) == os.getpid():
            continue
        try:
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                found[int(directory.name)] = (directory / "cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue
    return found
