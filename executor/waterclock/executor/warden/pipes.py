"""Standard output and error, apart and yet in the order in which they were written.

Two pipes alone lose the order of what was written to which. Here each pipe holds one packet (`O_DIRECT`, one
page), so a writer waits until its last write was read, and edge-triggered epoll reports the pipes in the order in
which they became readable: never more than one write in each, always in order. Where packets do not exist the
order is that of arrival.
"""

import fcntl
import os
import select

_PAGE = os.sysconf("SC_PAGE_SIZE")
_F_SETPIPE_SZ = 1031
_ROOMY = 64 * 1024
_EDGE = select.EPOLLIN | select.EPOLLET


class OutputPipes:
    """The read ends of one process's output."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self.out, self.out_end, out_ordered = _pipe()
        try:
            self.err, self.err_end, err_ordered = _pipe()
        except OSError:
            os.close(self.out)
            os.close(self.out_end)
            raise
        self._open = [self.out, self.err]
        self._ordered = out_ordered and err_ordered
        for fd in self._open:
            epoll.register(fd, _EDGE if self._ordered else select.EPOLLIN)

    @property
    def fds(self) -> tuple[int, int]:
        return self.out, self.err

    def close_write_ends(self) -> None:
        os.close(self.out_end)
        os.close(self.err_end)

    def read(self, fd: int, events: int) -> bytes:
        """What one event announced. With one packet to a pipe that is one read."""
        closed = bool(events & select.EPOLLHUP)
        data = _read(fd) if self._ordered and not closed else _read_all(fd)
        if closed and fd in self._open:
            self._open.remove(fd)
            self._epoll.unregister(fd)
        return data

    def drain(self) -> list[tuple[int, bytes]]:
        """Whatever is still in the pipes of a process that is gone."""
        return [(fd, _read_all(fd)) for fd in self._open]

    def widen(self) -> None:
        """Give up exact order for speed, when the output is not kept any more."""
        self._ordered = False
        for fd in self._open:
            fcntl.fcntl(fd, _F_SETPIPE_SZ, _ROOMY)
            self._epoll.modify(fd, select.EPOLLIN)

    def close(self) -> None:
        # Closing alone would not do: a program just being started has copies of our files for a moment, and as long
        # as there is a copy, epoll goes on to report it under a number that may be another's by then.
        for fd in self._open:
            self._epoll.unregister(fd)
        os.close(self.out)
        os.close(self.err)


def _pipe() -> tuple[int, int, bool]:
    """Read end, write end, and whether it holds one packet."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.fcntl(write_end, fcntl.F_SETFL, os.O_DIRECT)  # and blocking again
        fcntl.fcntl(write_end, _F_SETPIPE_SZ, _PAGE)
    except OSError:
        os.set_blocking(write_end, True)
        return read_end, write_end, False
    return read_end, write_end, True


def _read_all(fd: int) -> bytes:
    """At most what a full pipe holds, so that one busy writer cannot keep the warden to itself."""
    parts = []
    for _ in range(_ROOMY // _PAGE + 1):
        data = _read(fd)
        if not data:
            break
        parts.append(data)
    return b"".join(parts)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _ROOMY)
    except BlockingIOError:
        return b""
