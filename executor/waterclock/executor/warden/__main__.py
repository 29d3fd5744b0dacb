"""`python -m waterclock.executor.warden FD ROOT CONFINEMENT`: started by the executor only."""

import ctypes
import os
import resource
import signal
import socket
import sys

import msgspec

from waterclock.executor.warden.confinement import Confinement, close_to_inspection, confine
from waterclock.executor.warden.loop import Warden
from waterclock.executor.warden.messages import Confined

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_OPEN_FILES = 8192
_AUTOGROUP_NICE = "-10"
"""The niceness of our scheduling group. Sessions of jobs do not inherit it."""


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(link.fileno(), False)
    link.setblocking(True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the executor decides when to end
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _raise_open_files()
    _raise_priority()
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    protections = confine(msgspec.json.decode(sys.argv[3], type=Confinement))
    close_to_inspection()
    if os.geteuid() == 0:
        os.setgroups([])
    Warden(link, sys.argv[2]).run(Confined(protections))


def _raise_priority() -> None:
    """Run before the jobs, where the kernel permits it. Each job has a scheduling group of its own, so many busy ones
    would leave us a small share, and the kill of a job whose lease has expired must not wait for that job."""
    try:
        with open("/proc/self/autogroup", "w") as group:
            group.write(_AUTOGROUP_NICE)
    except OSError:
        pass


def _raise_open_files() -> None:
    """Each running process takes two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    main()
