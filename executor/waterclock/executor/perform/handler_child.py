"""`python -m waterclock.executor.helper FD`: a process that calls handlers, started by `Crew` only."""

import signal
import sys
from multiprocessing import spawn
from multiprocessing.connection import Connection

import msgspec

from waterclock.executor.attempt import record
from waterclock.executor.attempt.record import Attempt
from waterclock.executor.context import Context
from waterclock.executor.perform.failures import ending_of
from waterclock.executor.perform.handler_processes import Function, Tell
from waterclock.executor.perform.json_output import encoded


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


def _called(function: Function, attempt: Attempt, tell: Tell) -> record.Ending:
    try:
        value = encoded(function(Context(attempt, tell), attempt.item.spec.payload))
        return record.Succeeded(output=None if value is None else msgspec.json.decode(value))
    except Exception as error:
        return ending_of(error)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
