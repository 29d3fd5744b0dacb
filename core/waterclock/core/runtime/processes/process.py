"""A child process that cannot outlive the process that started it."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from waterclock.core.runtime.processes.identity import Identity, become

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_LINUX = sys.platform == "linux"
_POLL = 0.02

_libc = ctypes.CDLL(None, use_errno=True)


class Process:
    """Reaped by whoever polls or waits for it; safe to signal at any time, also when it is gone."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._popen.poll()

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        self._popen.kill()

    def wait_blocking(self, timeout: float) -> int:
        return self._popen.wait(timeout)

    async def wait(self) -> int:
        if self.alive and _LINUX:
            await self._ended()
        # Where the kernel does not tell us, ask.
        while (code := self.exit_code) is None:
            await asyncio.sleep(_POLL)
        return code

    async def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    identity: Identity | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
    pass_fds: Sequence[int] = (),
    timer_slack: int | None = None,
) -> Process:
    """Start `argv` in its own session (a terminal's Ctrl-C is for us to pass on), appending to `log`. `timer_slack`: by
    how many nanoseconds the kernel may end its sleeps late; None: as ours."""
    parent = os.getpid()

    def before_exec() -> None:
        if identity is not None:
            become(identity)
        # After the change of user: that clears it.
        if _LINUX:
            if timer_slack is not None:
                _libc.prctl(_PR_SET_TIMERSLACK, timer_slack, 0, 0, 0)
            _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    output = None if log is None else os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        return Process(
            subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=before_exec,
                pass_fds=pass_fds,
            )
        )
    finally:
        if output is not None:
            os.close(output)


def stop_blocking(process: Process, number: signal.Signals = signal.SIGTERM, grace: float = 10.0) -> int:
    """Ask, wait for `grace`, then kill."""
    process.send(number)
    try:
        return process.wait_blocking(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait_blocking(grace)
