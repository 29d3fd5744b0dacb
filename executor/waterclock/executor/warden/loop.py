"""The warden's loop: takes requests from the executor, watches the processes of jobs, sends reports."""

import os
import select
import shutil
import signal
import socket
import time
from typing import assert_never

from waterclock.executor.warden import process_tree
from waterclock.executor.warden.job_process import CannotStart, JobProcess, kill
from waterclock.executor.warden.messages import (
    Confined,
    Output,
    Renew,
    Report,
    Request,
    Start,
    StartFailed,
    Stop,
    Unpacker,
    decode_request,
    pack,
)
from waterclock.executor.warden.pipes import OutputPipes
from waterclock.executor.warden.process_tree import Orphans

_OUTPUT_DELAY_SECONDS = 0.01
_OUTPUT_BATCH_BYTES = 16 * 1024
_SWEEP_SECONDS = 0.005
_FINAL_KILL_SECONDS = 10.0
_FOREVER = -1.0


class Warden:
    def __init__(self, link: socket.socket, root: str) -> None:
        self._link = link
        self._root = root
        self._epoll = select.epoll()
        self._requests = Unpacker()
        self._reports: list[bytes] = []
        self._processes: dict[int, JobProcess] = {}
        self._running: dict[int, JobProcess] = {}
        """By pid."""
        self._by_fd: dict[int, JobProcess] = {}
        self._deadlines: dict[int, JobProcess] = {}
        """To be killed at a known time: stopped, or running under a lease."""
        self._ended: list[JobProcess] = []
        """The process itself is gone, but maybe not all it has started."""
        self._orphans = Orphans()
        self._with_output: dict[int, JobProcess] = {}
        self._flush_at: float | None = None
        self._child_died = _wakeup_on_child()
        self._incarnation = process_tree.incarnation()

    def run(self, confined: Confined) -> None:
        """Until the executor closes the socket."""
        self._send(confined)
        self._flush_reports()
        self._epoll.register(self._link, select.EPOLLIN)
        self._epoll.register(self._child_died, select.EPOLLIN)
        try:
            while self._run_once():
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self._kill_everything()

    def _run_once(self) -> bool:
        received = None
        for fd, events in self._epoll.poll(self._timeout()):
            if (process := self._by_fd.get(fd)) is not None:
                self._read_output(process, fd, events)
            elif fd == self._child_died.fileno():
                self._child_died.recv(4096)
                self._reap()
            elif fd == self._link.fileno():
                received = self._link.recv(1 << 20)
        if received == b"":
            return False
        for body in self._requests.feed(received or b""):
            self._handle(decode_request(body))
        self._run_timers()
        self._flush_reports()
        return True

    def _handle(self, request: Request) -> None:
        match request:
            case Start():
                self._start(request)
            case Stop(number=number, grace=grace):
                process = self._processes.get(number)
                if process is not None and process.pid in self._running:
                    self._stop(process, grace)
            case Renew(number=number, seconds=seconds):
                process = self._processes.get(number)
                if process is not None and not process.terminated:
                    self._kill_after(process, seconds)
            case _:
                assert_never(request)

    def _start(self, request: Start) -> None:
        try:
            pipes = OutputPipes(self._epoll)
        except OSError as error:
            self._send(StartFailed(request.number, f"cannot start {request.argv[0]}: {error.strerror}"))
            return
        process = JobProcess(request, pipes, self._incarnation)
        try:
            process.start(request)
        except (CannotStart, OSError) as error:
            pipes.close()
            self._send(StartFailed(request.number, str(error)))
            return
        self._processes[process.number] = self._running[process.pid] = process
        for fd in process.pipes.fds:
            self._by_fd[fd] = process
        if request.lease_seconds:
            self._kill_after(process, request.lease_seconds)

    def _stop(self, process: JobProcess, grace: float) -> None:
        self._refresh_orphans()
        if grace <= 0:
            self._deadlines.pop(process.number, None)
            process.signal(signal.SIGKILL, self._orphans.of(process.marker))
        elif not process.terminated:
            process.terminated = True
            self._kill_after(process, min(grace, process.kill_at - time.monotonic()))
            process.signal(signal.SIGTERM, self._orphans.of(process.marker))

    def _kill_after(self, process: JobProcess, seconds: float) -> None:
        process.kill_at = time.monotonic() + seconds
        self._deadlines[process.number] = process

    def _read_output(self, process: JobProcess, fd: int, events: int) -> None:
        process.receive(fd, process.pipes.read(fd, events))
        if len(process.unsent) >= _OUTPUT_BATCH_BYTES:
            self._send_output(process)
        elif process.unsent:
            self._with_output[process.number] = process
            self._flush_at = self._flush_at or time.monotonic() + _OUTPUT_DELAY_SECONDS

    def _reap(self) -> None:
        while (pid := _next_zombie()) is not None:
            process = self._running.pop(pid, None)
            if process is not None:
                _kill_group(pid)  # now, while the zombie keeps its pid from being used again
            _, status, usage = os.wait4(pid, 0)
            if process is not None:
                self._deadlines.pop(process.number, None)
                process.exited(
                    os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
                )
                self._ended.append(process)

    def _sweep(self) -> None:
        """Kill what ended processes have left behind, and report those that have left nothing."""
        self._refresh_orphans()
        running = [process.marker for process in self._running.values()]
        ended, self._ended = self._ended, []
        for process in ended:
            left = self._orphans.left_by(process.marker, running)
            for pid in left:
                process.left_behind += self._orphans.first_kill(pid)
                kill(pid, signal.SIGKILL)
            if left:
                self._ended.append(process)
            else:
                self._report(process)

    def _refresh_orphans(self) -> None:
        orphans = process_tree.children() - self._running.keys()
        self._orphans.refresh(
            orphans, [process.marker for process in self._processes.values()] if orphans else ()
        )

    def _report(self, process: JobProcess) -> None:
        self._send_output(process)
        self._with_output.pop(process.number, None)
        self._orphans.forget(process.marker)
        del self._processes[process.number]
        for fd in process.pipes.fds:
            del self._by_fd[fd]
        self._send(process.close(orphans=bool(self._orphans)))

    def _run_timers(self) -> None:
        if self._ended:
            self._sweep()
        now = time.monotonic()
        if self._deadlines:
            for process in [process for process in self._deadlines.values() if process.kill_at <= now]:
                process.lapsed = not process.terminated
                self._stop(process, 0)
        if self._flush_at is not None and self._flush_at <= now:
            self._flush_at = None
            for process in self._with_output.values():
                self._send_output(process)
            self._with_output.clear()

    def _timeout(self) -> float:
        """Seconds until the next timer."""
        if self._ended:
            return _SWEEP_SECONDS
        times = [process.kill_at for process in self._deadlines.values()]
        if self._flush_at is not None:
            times.append(self._flush_at)
        return max(min(times) - time.monotonic(), 0) if times else _FOREVER

    def _send_output(self, process: JobProcess) -> None:
        if process.unsent:
            self._send(Output(process.number, bytes(process.unsent)))
            process.unsent.clear()

    def _send(self, report: Report) -> None:
        self._reports.append(pack(report))

    def _flush_reports(self) -> None:
        if self._reports:
            reports, self._reports = self._reports, []
            self._link.sendall(b"".join(reports))

    def _kill_everything(self) -> None:
        """The executor is gone, so everything that it had us start is killed."""
        deadline = time.monotonic() + _FINAL_KILL_SECONDS
        while (left := process_tree.children()) and time.monotonic() < deadline:
            for pid in left:
                for member in process_tree.family(pid):
                    kill(member, signal.SIGKILL)
            time.sleep(_SWEEP_SECONDS)
            while (dead := _next_zombie()) is not None:
                os.waitpid(dead, 0)
        shutil.rmtree(self._root, ignore_errors=True)


def _next_zombie() -> int | None:
    try:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if dead is None else dead.si_pid


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _wakeup_on_child() -> socket.socket:
    """A socket that becomes readable when a child dies."""
    mine, theirs = socket.socketpair()
    mine.setblocking(False)
    theirs.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    return mine
