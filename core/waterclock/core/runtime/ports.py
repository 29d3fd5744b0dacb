"""Ports for servers that we start: free ones, held against others, and the same again after a restart."""

import os
import random
import socket
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waterclock.core.runtime.data_directory import write_private

LOOPBACK = "127.0.0.1"

_BELOW_EPHEMERAL = range(20_000, 32_000)
"""The kernel never gives these to a client. A client that keeps dialling a dead server on an ephemeral port is one day
given that very port, connects to itself, and keeps the server from coming back. So no server chooses its own port."""
_CAN_HOLD = sys.platform == "linux"


class Port:
    """The port of one server: the same at every start, unless somebody else listens there by then.

    As long as this object exists, nobody is given the port who asks for a free one: a socket of ours is bound to it and
    never listens. The server can listen all the same, since both sockets have SO_REUSEADDR (on Linux; elsewhere
    nothing is held). A program that wants this very port can still take it, so a server may fail to start: `secure`
    the port again, and start it again.
    """

    def __init__(self, file: Path | None = None, *, host: str = LOOPBACK) -> None:
        """`file`: where the number is kept."""
        self.number = 0
        self._file = file
        self._host = host
        self._holding: weakref.finalize[[int], Port] | None = None

    def secure(self) -> int:
        """The port to start the server on; call it before each start."""
        if self.number and is_free(self.number, self._host):
            return self.number
        before = self.number or self._read()
        if self.number or not before or not self._hold(before, exclusively=False):
            self._choose()
        if self.number != before and self._file is not None:
            write_private(self._file, str(self.number))
        return self.number

    def is_lost(self) -> bool:
        """Whether somebody listens there. Asked while our server does not run, that is somebody else."""
        return not is_free(self.number, self._host)

    def release(self) -> None:
        if self._holding is not None:
            self._holding()
            self._holding = None

    def _choose(self) -> None:
        for number in random.sample(_BELOW_EPHEMERAL, 200):
            if self._hold(number, exclusively=True):
                return
        raise OSError(f"no free port on {self._host} in {_BELOW_EPHEMERAL}")

    def _hold(self, number: int, *, exclusively: bool) -> bool:
        """`exclusively`: not if somebody holds it, and not if connections to it linger after their server's end."""
        with _socket(self._host) as holder:
            try:
                if not exclusively:
                    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                holder.bind((self._host, number))
            except OSError:
                return False
            self.release()
            self.number = number
            if _CAN_HOLD:
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._holding = weakref.finalize(self, os.close, holder.detach())
        return True

    def _read(self) -> int:
        try:
            return int(self._file.read_text()) if self._file is not None else 0
        except (OSError, ValueError):
            return 0


def is_free(number: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen there now."""
    with _socket(host) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError:
            return False
    return True


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that is ours while the scope lasts."""
    port = Port()
    try:
        yield port.secure()
    finally:
        port.release()


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
