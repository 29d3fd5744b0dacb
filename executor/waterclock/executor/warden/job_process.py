"""One process of a job: started in its own session, directory and environment, with its limits; and its output."""

import math
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from waterclock.executor.warden import process_tree, unpacker
from waterclock.executor.warden.messages import MAX_LINE_BYTES, Exited, Limits, Start
from waterclock.executor.warden.pipes import OutputPipes

_SIGNALS_TO_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ULIMIT_OPTIONS = {"cpu_seconds": "t", "memory_kib": "v", "open_files": "n"}
_PEAK_AGE_SECONDS = 10.0

_own_peak = (0, -_PEAK_AGE_SECONDS)


class CannotStart(Exception):
    """The program does not exist, may not be run, or its arguments are too long."""


class JobProcess:
    def __init__(self, request: Start, pipes: OutputPipes, warden: str) -> None:
        self.number = request.number
        self.marker = f"{warden}.{request.number}"
        self.pid = 0
        self.pipes = pipes
        self.unsent = bytearray()
        self.kill_at = math.inf
        self.terminated = False
        self.lapsed = False
        self.left_behind = 0
        self._exit: tuple[int, float, int] = (0, 0.0, 0)
        self._output_left = request.output_bytes
        self._dropped = 0
        self._tail = b""

    def start(self, request: Start) -> None:
        """Raises CannotStart."""
        stdin = _readable(request.stdin)
        try:
            request.env[process_tree.MARKER_VARIABLE] = self.marker
            self.pid = _launch(request, stdin, self.pipes.out_end, self.pipes.err_end)
        finally:
            os.close(stdin)
            self.pipes.close_write_ends()

    def receive(self, fd: int, data: bytes) -> None:
        if fd == self.pipes.out:
            self._tail = (self._tail + data)[-MAX_LINE_BYTES - 1 :]
        if len(data) <= self._output_left:
            self._output_left -= len(data)
            self.unsent += data
            return
        if not self._dropped:
            self.unsent += data[: self._output_left]
            self.pipes.widen()
        self._dropped += len(data) - self._output_left
        self._output_left = 0

    def signal(self, number: signal.Signals, orphans: Iterable[int]) -> None:
        """To the process and everything it has started."""
        for pid in process_tree.family(self.pid, orphans):
            kill(pid, number)

    def exited(self, code: int, cpu_seconds: float, memory_bytes: int) -> None:
        """The process itself is gone: keep how it ended, and read what is left in its pipes."""
        self._exit = code, cpu_seconds, memory_bytes
        for fd, data in self.pipes.drain():
            self.receive(fd, data)

    def close(self, *, orphans: bool) -> Exited:
        """Nothing of it is left: close its pipes and report its end."""
        self.pipes.close()
        code, cpu_seconds, memory_bytes = self._exit
        return Exited(
            number=self.number,
            code=code,
            cpu_seconds=cpu_seconds,
            memory_bytes=memory_bytes if memory_bytes > own_peak() else 0,
            dropped=self._dropped,
            last_line=self._last_line(),
            lapsed=self.lapsed,
            left_behind=self.left_behind,
            orphans=orphans,
        )

    def _last_line(self) -> bytes:
        line = self._tail.rstrip().rpartition(b"\n")[2]
        return line if len(line) <= MAX_LINE_BYTES else b""


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


def _launch(request: Start, stdin: int, stdout: int, stderr: int) -> int:
    """Returns the pid. The caller is single-threaded: working directory and user are inherited from it."""
    try:
        os.chdir(request.directory)
        if request.unpack:
            return unpacker.launch(request.unpack, request.directory, request.identity, stderr)
        with _as_user(request.identity):
            argv = request.argv
            program = _find_program(argv[0], request.env)
            if request.limits.any:
                argv = ["/bin/sh", "-c", f'{_ulimits(request.limits)} exec "$0" "$@"', program, *argv[1:]]
                program = argv[0]
            return os.posix_spawn(
                program,
                argv,
                request.env,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, stdin, 0),
                    (os.POSIX_SPAWN_DUP2, stdout, 1),
                    (os.POSIX_SPAWN_DUP2, stderr, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=_SIGNALS_TO_RESET,
            )
    except (OSError, ValueError) as error:
        hint = ""
        if isinstance(error, PermissionError) and request.identity is not None:
            hint = f" (it runs as user {request.identity[0]}; see the setting run_as)"
        raise CannotStart(f"cannot start {request.argv[0]}: {_message(error)}{hint}") from error


@contextmanager
def _as_user(identity: tuple[int, int] | None) -> Iterator[None]:
    """What is started meanwhile belongs to that user for good: executing a program makes the effective user its saved
    one. Forking to change the user in the child would cost more than all the rest.

    We ourselves can be signalled by that user for that moment; but of an id of a job's own there is no other process.
    """
    if identity is None:
        yield
        return
    user, group = identity
    os.setresgid(group, group, 0)
    try:
        os.setresuid(user, user, 0)
        try:
            yield
        finally:
            os.setresuid(0, 0, 0)
    finally:
        os.setresgid(0, 0, 0)


def _find_program(name: str, env: dict[str, str]) -> str:
    """A program by its path, or by its name on the job's own PATH."""
    if "/" in name:
        return name
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise CannotStart(f"cannot start {name}: no such program on PATH")
    return found


def _ulimits(limits: Limits) -> str:
    """Shell text that sets the limits for good. A limit set from outside would be late by a fork or two."""
    parts = [
        f"ulimit -{option} {value};"
        for name, option in _ULIMIT_OPTIONS.items()
        if (value := getattr(limits, name))
    ]
    if limits.processes:
        parts.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes};")
    if limits.file_blocks:
        parts.append(f"ulimit -f {limits.file_blocks};")
    return " ".join(parts)


def _message(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def own_peak() -> int:
    """The most memory, in bytes, that the warden itself has used; read again every few seconds.

    A new process starts with our peak as its own, since it shares our pages until it executes its program. What the
    kernel reports for it means something only if it is more. (Our own `getrusage` does not help: it includes our
    parent's peak, for the same reason.)
    """
    global _own_peak
    peak, at = _own_peak
    now = time.monotonic()
    if now - at >= _PEAK_AGE_SECONDS:
        peak = _read_peak()
        _own_peak = peak, now
    return peak


def _read_peak() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
