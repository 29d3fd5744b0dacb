"""One process under the warden's watch, and what it said."""

import math
import os
import signal
from collections.abc import Iterable

from waterclock.executor.warden import process_tree
from waterclock.executor.warden.launch import launch
from waterclock.executor.warden.memory import own_peak
from waterclock.executor.warden.messages import LONGEST_LINE, Exited, Start
from waterclock.executor.warden.pipes import OutputPipes


class Ward:
    def __init__(self, order: Start, pipes: OutputPipes, warden: str) -> None:
        self.number = order.ward
        self.mark = f"{warden}.{order.ward}"
        self.pid = 0
        self.pipes = pipes
        self.unsent = bytearray()
        self.kill_at = math.inf
        self.terminated = False
        self.lapsed = False
        self.left_behind = 0
        self._ending: tuple[int, float, int] = (0, 0.0, 0)
        self._room = order.output_bytes
        self._dropped = 0
        self._tail = b""

    def start(self, order: Start) -> None:
        """Raises CannotStart."""
        stdin = _readable(order.stdin)
        try:
            order.env[process_tree.MARK] = self.mark
            self.pid = launch(order, stdin, self.pipes.out_end, self.pipes.err_end)
        finally:
            os.close(stdin)
            self.pipes.close_write_ends()

    def hear(self, fd: int, data: bytes) -> None:
        if fd == self.pipes.out:
            self._tail = (self._tail + data)[-LONGEST_LINE - 1 :]
        if len(data) <= self._room:
            self._room -= len(data)
            self.unsent += data
            return
        if not self._dropped:
            self.unsent += data[: self._room]
            self.pipes.widen()
        self._dropped += len(data) - self._room
        self._room = 0

    def signal(self, number: signal.Signals, orphans: Iterable[int]) -> None:
        """To the process and everything it has started."""
        for pid in process_tree.family(self.pid, orphans):
            kill(pid, number)

    def end(self, code: int, cpu_seconds: float, memory_bytes: int) -> None:
        """The process itself is gone: keep how, and hear out what it had said."""
        self._ending = code, cpu_seconds, memory_bytes
        for fd, data in self.pipes.drain():
            self.hear(fd, data)

    def close(self, *, strays: bool) -> Exited:
        """Nothing of it is left; give back what it held."""
        self.pipes.close()
        code, cpu_seconds, memory_bytes = self._ending
        return Exited(
            ward=self.number,
            code=code,
            cpu_seconds=cpu_seconds,
            memory_bytes=memory_bytes if memory_bytes > own_peak() else 0,
            dropped=self._dropped,
            last_line=self._last_line(),
            lapsed=self.lapsed,
            left_behind=self.left_behind,
            strays=strays,
        )

    def _last_line(self) -> bytes:
        line = self._tail.rstrip().rpartition(b"\n")[2]
        return line if len(line) <= LONGEST_LINE else b""


def _readable(content: bytes) -> int:
    """A file descriptor from which `content` can be read."""
    if not content:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("payload")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
