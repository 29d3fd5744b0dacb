"""Handlers with `run_in="process"`: for work that would hold Python's lock, or must be killable.

A process calls one handler at a time and is used again. To stop a call its process is killed. A process whose
executor is gone finds its pipe closed and ends. `HandlerProcesses` is the executor's side; `serve` is the child's,
started as `python -m waterclock.executor.perform.handler_process FD`.
"""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import spawn
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from waterclock.executor.attempt_record import Attempt, Failed, Result, Succeeded
from waterclock.executor.context import Context, HandlerMessage, RelayedContext, SecretRequest
from waterclock.executor.handler_exceptions import SecretMissing
from waterclock.executor.in_flight import RunningAttempt, StopCause, result_of_stop
from waterclock.executor.masking import SecretValues
from waterclock.executor.perform.results import encode_output, result_of_exception

Function = Callable[[Context, Any], Any]
Send = Callable[[HandlerMessage], None]
Secret = Callable[[str], str]

_MODULE = "waterclock.executor.perform.handler_process"


class HandlerProcesses:
    """As many processes as there were calls at a time."""

    def __init__(self) -> None:
        self._idle: list[_HandlerProcess] = []
        self._all: set[_HandlerProcess] = set()

    async def call(
        self, function: Function, attempt: Attempt, send: Send, running: RunningAttempt, secret: Secret
    ) -> Result:
        process = self._idle.pop() if self._idle else await self._start()
        running.set_interrupt(process.kill)
        result = await process.call(function, attempt, send, secret)
        running.clear_interrupt()  # before another attempt gets the process
        if result is not None:
            self._idle.append(process)
            return result
        self._all.discard(process)
        exit_code = await asyncio.to_thread(process.wait)
        if running.stop_cause is not None:
            return result_of_stop(running.stop_cause)
        return Failed(reason=f"its process ended with {exit_code}", error="ProcessEnded")

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()

    async def _start(self) -> "_HandlerProcess":
        process = await asyncio.to_thread(_HandlerProcess)
        self._all.add(process)
        return process


class _HandlerProcess:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._pipe = Connection(ours.detach())
        preparation = spawn.get_preparation_data("handler")
        del preparation["authkey"]  # a secret of multiprocessing's, of no use here
        self._pipe.send(preparation)

    def wait(self) -> int:
        """Until it has ended; returns its exit code."""
        return self._process.wait()

    def kill(self, _: StopCause | None = None) -> None:
        self._process.kill()

    async def call(self, function: Function, attempt: Attempt, send: Send, secret: Secret) -> Result | None:
        """None if the process died."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result | None] = loop.create_future()

        def receive() -> None:
            try:
                message = self._pipe.recv()
            except (EOFError, OSError):
                message = None
            if isinstance(message, HandlerMessage):
                send(message)
            elif isinstance(message, SecretRequest):
                self._answer(message.name, secret)
            elif not answer.done():
                answer.set_result(message)

        self._pipe.send((function, attempt))
        loop.add_reader(self._pipe.fileno(), receive)
        try:
            return await answer
        finally:
            loop.remove_reader(self._pipe.fileno())

    def _answer(self, name: str, secret: Secret) -> None:
        try:
            self._pipe.send(secret(name))
        except SecretMissing as error:
            self._pipe.send(error)
        except OSError:
            pass  # it has died, which its reader will notice


def serve(pipe: Connection) -> None:
    """In the child: receive a function and an attempt, send log lines and progress, ask for secrets, then send the
    result; again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spawn.prepare(pipe.recv())  # import paths and main module, as multiprocessing does for its own
    while True:
        try:
            function, attempt = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_call(function, attempt, pipe))


def _call(function: Function, attempt: Attempt, pipe: Connection) -> Result:
    secrets = SecretValues()
    one_at_a_time = threading.Lock()

    def secret(name: str) -> str:
        with one_at_a_time:
            pipe.send(SecretRequest(name))
            answer = pipe.recv()
        if isinstance(answer, SecretMissing):
            raise answer
        secrets.add(answer)
        return str(answer)

    try:
        value = encode_output(function(RelayedContext(attempt, pipe.send, secret), attempt.item.spec.payload))
        return Succeeded(output=None if value is None else msgspec.json.decode(value))
    except Exception as error:
        return result_of_exception(error, secrets)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
