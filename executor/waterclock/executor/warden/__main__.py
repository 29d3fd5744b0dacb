"""`python -m waterclock.executor.warden FD ROOT`: started by the executor only."""

import ctypes
import os
import resource
import signal
import socket
import sys

from waterclock.executor.warden.keeper import Keeper

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(link.fileno(), False)
    link.setblocking(True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the executor decides when to end
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    Keeper(link, sys.argv[2]).run()


if __name__ == "__main__":
    main()
