"""Unpacks an archive in a child of the warden's: as the job's user, with little memory, and fenced by Landlock to the
directory that it fills. Even a flaw in Python's own tarfile or zlib does no more harm than the job itself could."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import IO

from waterclock.executor.warden import landlock

_MEMORY_BYTES = 256 * 1024 * 1024
_CPU_SECONDS = 1800
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def launch(path: str, directory: str, identity: tuple[int, int] | None, stderr: int) -> int:
    """Returns the pid. It ends with 0, or with 1 and the reason on `stderr`.

    A fork and no new program: the job's user may not even be able to read our own files.
    """
    from waterclock.executor.warden import archive  # before the fork, and not in a warden that never needs it

    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            _unpack(archive.unpack, source, directory, identity, stderr)
        return pid
    finally:
        os.close(source)


def _unpack(
    unpack: Callable[[IO[bytes], int], None],
    source: int,
    directory: str,
    identity: tuple[int, int] | None,
    stderr: int,
) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        _close_others(keep=source)
        _limit()
        if identity is not None:
            user, group = identity
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        into = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        landlock.fence(into)
        _give_up_capabilities()
        with open(source, "rb", closefd=False) as file:
            unpack(file, into)
        code = 0
    except BaseException as error:
        os.write(2, str(error).encode(errors="replace")[:1000])
    finally:
        os._exit(code)


def _close_others(keep: int) -> None:
    """The warden's own: its link to the executor, and the output of other jobs."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, keep)
    os.closerange(keep + 1, most)


def _limit() -> None:
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    memory = pages * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    sys.setrecursionlimit(200)


def _give_up_capabilities() -> None:
    """Those that the user namespace gave us."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _libc.capset(header, (ctypes.c_uint32 * 6)())
