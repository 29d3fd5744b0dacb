"""The warden's loop: orders in, processes out, nothing left behind."""

import os
import select
import shutil
import signal
import socket
import time
from typing import assert_never

from waterclock.executor.warden import process_tree
from waterclock.executor.warden.job_process import CannotStart, Ward, kill
from waterclock.executor.warden.messages import (
    Order,
    Output,
    Refused,
    Renew,
    Start,
    Stop,
    Unpacker,
    Word,
    decode_order,
    packed,
)
from waterclock.executor.warden.pipes import OutputPipes
from waterclock.executor.warden.process_tree import Strays

_GATHER_SECONDS = 0.01
_GATHER_BYTES = 16 * 1024
_SWEEP_SECONDS = 0.005
_LAST_WISH_SECONDS = 10.0
_FOREVER = -1.0


class Keeper:
    def __init__(self, link: socket.socket, root: str) -> None:
        self._link = link
        self._root = root
        self._epoll = select.epoll()
        self._orders = Unpacker()
        self._words: list[bytes] = []
        self._wards: dict[int, Ward] = {}
        self._running: dict[int, Ward] = {}
        """By pid."""
        self._by_fd: dict[int, Ward] = {}
        self._timed: dict[int, Ward] = {}
        """To be killed at a known time: asked to end, or living on a lease."""
        self._ended: list[Ward] = []
        """The process is gone, but maybe not all it left behind."""
        self._strays = Strays()
        self._talking: dict[int, Ward] = {}
        self._flush_at: float | None = None
        self._child_died = _wakeup_on_child()
        self._incarnation = process_tree.incarnation()

    def run(self) -> None:
        """Until the executor closes the socket."""
        self._epoll.register(self._link, select.EPOLLIN)
        self._epoll.register(self._child_died, select.EPOLLIN)
        try:
            while self._turn():
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self._end_everything()

    def _turn(self) -> bool:
        orders = None
        for fd, events in self._epoll.poll(self._wait()):
            if (ward := self._by_fd.get(fd)) is not None:
                self._hear(ward, fd, events)
            elif fd == self._child_died.fileno():
                self._child_died.recv(4096)
                self._reap()
            elif fd == self._link.fileno():
                orders = self._link.recv(1 << 20)
        if orders == b"":
            return False
        for body in self._orders.feed(orders or b""):
            self._obey(decode_order(body))
        self._keep_time()
        self._speak()
        return True

    def _obey(self, order: Order) -> None:
        match order:
            case Start():
                self._start(order)
            case Stop(ward=number, grace=grace):
                ward = self._wards.get(number)
                if ward is not None and ward.pid in self._running:
                    self._stop(ward, grace)
            case Renew(ward=number, seconds=seconds):
                ward = self._wards.get(number)
                if ward is not None and not ward.terminated:
                    self._kill_after(ward, seconds)
            case _:
                assert_never(order)

    def _start(self, order: Start) -> None:
        try:
            pipes = OutputPipes(self._epoll)
        except OSError as error:
            self._say(Refused(order.ward, f"cannot start {order.argv[0]}: {error.strerror}"))
            return
        ward = Ward(order, pipes, self._incarnation)
        try:
            ward.start(order)
        except (CannotStart, OSError) as error:
            pipes.close()
            self._say(Refused(order.ward, str(error)))
            return
        self._wards[ward.number] = self._running[ward.pid] = ward
        for fd in ward.pipes.fds:
            self._by_fd[fd] = ward
        if order.lease_seconds:
            self._kill_after(ward, order.lease_seconds)

    def _stop(self, ward: Ward, grace: float) -> None:
        self._refresh_strays()
        if grace <= 0:
            self._timed.pop(ward.number, None)
            ward.signal(signal.SIGKILL, self._strays.of(ward.mark))
        elif not ward.terminated:
            ward.terminated = True
            self._kill_after(ward, min(grace, ward.kill_at - time.monotonic()))
            ward.signal(signal.SIGTERM, self._strays.of(ward.mark))

    def _kill_after(self, ward: Ward, seconds: float) -> None:
        ward.kill_at = time.monotonic() + seconds
        self._timed[ward.number] = ward

    def _hear(self, ward: Ward, fd: int, events: int) -> None:
        ward.hear(fd, ward.pipes.read(fd, events))
        if len(ward.unsent) >= _GATHER_BYTES:
            self._pass_on(ward)
        elif ward.unsent:
            self._talking[ward.number] = ward
            self._flush_at = self._flush_at or time.monotonic() + _GATHER_SECONDS

    def _reap(self) -> None:
        while (pid := _next_zombie()) is not None:
            ward = self._running.pop(pid, None)
            if ward is not None:
                _kill_group(pid)  # now, while the zombie keeps its number from being used again
            _, status, usage = os.wait4(pid, 0)
            if ward is not None:
                self._timed.pop(ward.number, None)
                ward.end(
                    os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
                )
                self._ended.append(ward)

    def _sweep(self) -> None:
        """Kill what ended wards have left behind, and report those that have left nothing."""
        self._refresh_strays()
        running = [ward.mark for ward in self._running.values()]
        ended, self._ended = self._ended, []
        for ward in ended:
            left = self._strays.left_by(ward.mark, running)
            for pid in left:
                ward.left_behind += self._strays.is_new(pid)
                kill(pid, signal.SIGKILL)
            if left:
                self._ended.append(ward)
            else:
                self._report(ward)

    def _refresh_strays(self) -> None:
        orphans = process_tree.children() - self._running.keys()
        self._strays.refresh(orphans, [ward.mark for ward in self._wards.values()] if orphans else ())

    def _report(self, ward: Ward) -> None:
        self._pass_on(ward)
        self._talking.pop(ward.number, None)
        self._strays.forget(ward.mark)
        del self._wards[ward.number]
        for fd in ward.pipes.fds:
            del self._by_fd[fd]
        self._say(ward.close(strays=bool(self._strays)))

    def _keep_time(self) -> None:
        if self._ended:
            self._sweep()
        now = time.monotonic()
        if self._timed:
            for ward in [ward for ward in self._timed.values() if ward.kill_at <= now]:
                ward.lapsed = not ward.terminated
                self._stop(ward, 0)
        if self._flush_at is not None and self._flush_at <= now:
            self._flush_at = None
            for ward in self._talking.values():
                self._pass_on(ward)
            self._talking.clear()

    def _wait(self) -> float:
        """Seconds until the clock has something to do."""
        if self._ended:
            return _SWEEP_SECONDS
        times = [ward.kill_at for ward in self._timed.values()]
        if self._flush_at is not None:
            times.append(self._flush_at)
        return max(min(times) - time.monotonic(), 0) if times else _FOREVER

    def _pass_on(self, ward: Ward) -> None:
        if ward.unsent:
            self._say(Output(ward.number, bytes(ward.unsent)))
            ward.unsent.clear()

    def _say(self, word: Word) -> None:
        self._words.append(packed(word))

    def _speak(self) -> None:
        if self._words:
            words, self._words = self._words, []
            self._link.sendall(b"".join(words))

    def _end_everything(self) -> None:
        """The executor is gone, so everything it had us start goes too."""
        give_up = time.monotonic() + _LAST_WISH_SECONDS
        while (left := process_tree.children()) and time.monotonic() < give_up:
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
