"""`python -m waterclock.executor.warden FD ROOT`: started by the executor only."""

import ctypes
import os
import resource
import signal
import socket
import sys

from waterclock.executor.warden.loop import Keeper

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_MANY_FILES = 8192
_AHEAD = "-10"
"""Of the group, as `nice` counts. Sessions of jobs do not inherit it."""


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(link.fileno(), False)
    link.setblocking(True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the executor decides when to end
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _allow_many_files()
    _go_first()
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    Keeper(link, sys.argv[2]).run()


def _go_first() -> None:
    """Ahead of the jobs, where we may: each has a scheduling group of its own, so that many busy ones would leave us
    a small share, and a lease that has run out must not wait for those it should stop."""
    try:
        with open("/proc/self/autogroup", "w") as group:
            group.write(_AHEAD)
    except OSError:
        pass


def _allow_many_files() -> None:
    """Each process takes two while it runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(_MANY_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    main()
