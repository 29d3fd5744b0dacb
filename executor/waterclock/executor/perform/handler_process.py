"""Handlers that run in processes of their own: for work that would hold Python's lock, or must be stoppable.

A helper process runs one call at a time and is used again. To stop a call its helper is killed. A helper whose
executor is gone finds its pipe closed and ends.

`python -m waterclock.executor.perform.handler_process FD`: a process that calls handlers, started by `Crew` only.
"""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import spawn
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from waterclock.executor import attempt_record
from waterclock.executor.attempt_record import Attempt
from waterclock.executor.context import Context, Word
from waterclock.executor.in_flight import Cause, Running, ended_by
from waterclock.executor.perform.results import encoded, ending_of

Function = Callable[[Context, Any], Any]
Tell = Callable[[Word], None]


class Crew:
    """As many helpers as there were calls at a time."""

    def __init__(self) -> None:
        self._idle: list[_Helper] = []
        self._all: set[_Helper] = set()

    async def call(
        self, function: Function, attempt: Attempt, tell: Tell, running: Running
    ) -> attempt_record.Ending:
        helper = self._idle.pop() if self._idle else await self._hire()
        running.interruptible(helper.kill)
        end = await helper.call(function, attempt, tell)
        if end is not None:
            self._idle.append(helper)
            return end
        self._all.discard(helper)
        exit_code = await asyncio.to_thread(helper.wait)
        if running.cause is not None:
            return ended_by(running.cause)
        return attempt_record.Failed(reason=f"its process ended with {exit_code}", error="ProcessEnded")

    def close(self) -> None:
        for helper in self._all:
            helper.kill()
            helper.wait()

    async def _hire(self) -> "_Helper":
        helper = await asyncio.to_thread(_Helper)
        self._all.add(helper)
        return helper


class _Helper:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "waterclock.executor.perform.handler_process",
                    str(theirs.fileno()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._pipe = Connection(ours.detach())
        about_us = spawn.get_preparation_data("handler")
        del about_us["authkey"]  # a secret of multiprocessing's, of no use here
        self._pipe.send(about_us)

    def wait(self) -> int:
        """Until it has ended; returns its exit code."""
        return self._process.wait()

    def kill(self, _: Cause | None = None) -> None:
        self._process.kill()

    async def call(self, function: Function, attempt: Attempt, tell: Tell) -> attempt_record.Ending | None:
        """None if the process died."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[attempt_record.Ending | None] = loop.create_future()

        def heard() -> None:
            try:
                said = self._pipe.recv()
            except (EOFError, OSError):
                said = None
            if isinstance(said, Word):
                tell(said)
            elif not answer.done():
                answer.set_result(said)

        self._pipe.send((function, attempt))
        loop.add_reader(self._pipe.fileno(), heard)
        try:
            return await answer
        finally:
            loop.remove_reader(self._pipe.fileno())


def serve(pipe: Connection) -> None:
    """A function and an attempt in; what it says, and an ending, out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spawn.prepare(pipe.recv())  # import paths and main module, as multiprocessing does for its own
    while True:
        try:
            function, attempt = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_called(function, attempt, pipe.send))


def _called(function: Function, attempt: Attempt, tell: Tell) -> attempt_record.Ending:
    try:
        value = encoded(function(Context(attempt, tell), attempt.item.spec.payload))
        return attempt_record.Succeeded(output=None if value is None else msgspec.json.decode(value))
    except Exception as error:
        return ending_of(error)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
