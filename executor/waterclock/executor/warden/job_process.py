"""One process under the warden's watch, and what it said.

Starting one program: its own session and directory, only the environment it was given, and its limits.

How much memory the warden itself has used at most.

A new process starts out with our peak as its own, since it shares our pages until it becomes another program. What the
kernel reports for it says something only if it is more. (Our own `getrusage` does not tell: it has our parent's
peak in it, for the same reason.)
"""

import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable

from waterclock.executor.warden import process_tree
from waterclock.executor.warden.messages import LONGEST_LINE, Exited, Limits, Start
from waterclock.executor.warden.pipes import OutputPipes

_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OPTIONS = {"cpu_seconds": "t", "memory_kib": "v", "open_files": "n"}


class CannotStart(Exception):
    pass


def launch(order: Start, stdin: int, stdout: int, stderr: int) -> int:
    """Returns the pid. The caller is single-threaded: the working directory is inherited from it."""
    argv = order.argv
    program = find_program(argv[0], order.env)
    if order.limits.any:
        argv = ["/bin/sh", "-c", f'{ulimits(order.limits)} exec "$0" "$@"', program, *argv[1:]]
        program = argv[0]
    try:
        if order.identity is not None:
            return _launch_as(
                order.identity, program, argv, order.env, order.directory, (stdin, stdout, stderr)
            )
        os.chdir(order.directory)
        return os.posix_spawn(
            program,
            argv,
            order.env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET,
        )
    except (OSError, ValueError) as error:
        raise CannotStart(f"cannot start {order.argv[0]}: {_said(error)}") from error


def find_program(name: str, env: dict[str, str]) -> str:
    """A program by its path, or by its name on the job's own PATH."""
    if "/" in name:
        return name
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise CannotStart(f"cannot start {name}: no such program on PATH")
    return found


def ulimits(limits: Limits) -> str:
    """Shell text that sets the limits for good. A limit set from outside would be late by a fork or two."""
    parts = [
        f"ulimit -{option} {value};" for name, option in _OPTIONS.items() if (value := getattr(limits, name))
    ]
    if limits.processes:
        parts.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes};")
    return " ".join(parts)


def _launch_as(
    identity: tuple[int, int],
    program: str,
    argv: list[str],
    env: dict[str, str],
    directory: str,
    fds: tuple[int, int, int],
) -> int:
    user, group = identity
    os.chown(directory, user, group)
    process = subprocess.Popen(
        argv,
        executable=program,
        env=env,
        cwd=directory,
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        user=user,
        group=group,
        extra_groups=(),
        start_new_session=True,
        restore_signals=True,
    )
    process.returncode = 0  # the warden reaps it itself
    return process.pid


def _said(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


_FRESH_SECONDS = 10.0

_known = (0, -_FRESH_SECONDS)


def own_peak() -> int:
    """Bytes; a few seconds old is good enough."""
    global _known
    peak, at = _known
    now = time.monotonic()
    if now - at >= _FRESH_SECONDS:
        peak = _read()
        _known = peak, now
    return peak


def _read() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


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
