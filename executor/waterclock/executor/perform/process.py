"""Shell commands and programs."""

import asyncio
import os
import signal
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from waterclock.executor.attempt import record
from waterclock.executor.attempt.in_hand import Cause, Running, ended_by
from waterclock.executor.attempt.record import Attempt
from waterclock.executor.limits.leases import HELD_SECONDS
from waterclock.executor.logs.output import OutputLog, Outputs
from waterclock.executor.perform.environment import environment, payload_of
from waterclock.executor.perform.json_output import from_line
from waterclock.executor.warden.client import CannotStart, Process, Processes
from waterclock.executor.warden.messages import Exited, Limits
from waterclock.proto import policies
from waterclock.proto.spec import Argv, Shell

NO_LIMITS = Limits()
_SIGNALLED = 128
"""A process ended by a signal has no exit code; shells show this plus the signal's number."""


class ProcessPerformer:
    def __init__(
        self, processes: Processes, outputs: Outputs, *, identity: tuple[int, int] | None = None
    ) -> None:
        self._processes = processes
        self._outputs = outputs
        self._identity = identity
        self._directories = processes.directories
        self._home = Path.cwd()

    async def perform(self, attempt: Attempt, running: Running) -> record.Ending:
        task = attempt.item.spec.task
        match task:
            case Shell():
                return await self.run(attempt, running, ("/bin/sh", "-c", task.command), task.env)
            case Argv():
                return await self.run(attempt, running, self._located(task.command), task.env)
            case _:
                raise TypeError(f"not a process: {task}")

    async def run(
        self,
        attempt: Attempt,
        running: Running,
        argv: Sequence[str],
        own_env: dict[str, str],
        directory: str | None = None,
    ) -> record.Ending:
        """Run a program to its end, or until the attempt is stopped and nothing of it is left.

        In a fresh directory, or in the one given. It is removed afterwards.
        """
        directory = directory or self._directories.take()
        deserted = False
        try:
            end, deserted = await self._run(attempt, running, argv, own_env, directory)
            return end
        finally:
            if not (deserted and self._directories.take_back(directory)):
                await self._directories.remove(directory)

    async def _run(
        self,
        attempt: Attempt,
        running: Running,
        argv: Sequence[str],
        own_env: dict[str, str],
        directory: str,
    ) -> tuple[record.Ending, bool]:
        """How it ended, and whether certainly nobody is left who could be in its directory."""
        log = self._outputs.open(attempt)
        payload = payload_of(attempt)
        process = self._processes.start(
            argv,
            environment(attempt, own_env, payload),
            directory=directory,
            stdin=payload,
            hear=log.hear,
            output_bytes=self._outputs.limit_of(attempt.item.spec),
            limits=_limits(attempt.item.spec.limits),
            identity=self._identity,
            lease_seconds=HELD_SECONDS if attempt.fencing_token is not None else 0.0,
        )

        def interrupt(cause: Cause) -> None:
            self._processes.stop(process, grace=cause.grace)

        running.interruptible(interrupt)
        running.on_renewal(lambda seconds: self._processes.renew(process, seconds))
        try:
            exited = await self._end_of(process)
        finally:
            running.uninterruptible()
        if isinstance(exited, CannotStart):
            return await log.kept(record.Failed(reason=log.mask(str(exited)))), True
        log.finish(exited.dropped)
        return await log.kept(_ending(exited, running.cause, log)), not exited.strays

    async def _end_of(self, process: Process) -> Exited | CannotStart:
        """Also when we are cancelled ourselves: a process is never left to itself."""
        try:
            exited = await asyncio.shield(process.ended)
        except CannotStart as error:
            return error
        except asyncio.CancelledError:
            self._processes.stop(process, grace=0)
            raise
        return exited

    def _located(self, command: Sequence[str]) -> Sequence[str]:
        """A program named by a relative path is looked for where the executor was started."""
        program = command[0]
        if "/" in program and not os.path.isabs(program):
            return (str(self._home / program), *command[1:])
        return command


def _ending(exited: Exited, cause: Cause | None, log: OutputLog) -> record.Ending:
    traces = record.Traces(
        exit_code=exited.code if exited.code >= 0 else _SIGNALLED - exited.code,
        cpu_seconds=round(exited.cpu_seconds, 6),
        memory_bytes=exited.memory_bytes or None,
    )
    output = from_line(exited.last_line)
    if cause is not None:
        return ended_by(cause, traces, log.tail())
    if exited.lapsed:
        return record.Failed(
            reason="its lease was not renewed in time", error_message=log.tail(), traces=traces
        )
    if exited.code == 0:
        return record.Succeeded(output=output, traces=traces)
    return record.Failed(reason=_reason(exited.code), error_message=log.tail(), output=output, traces=traces)


def _reason(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}" + (": over its CPU limit" if name == "SIGXCPU" else "")


def _limits(wanted: policies.Limits | None) -> Limits:
    if wanted is None:
        return NO_LIMITS
    return Limits(
        cpu_seconds=ceil(wanted.cpu_seconds or 0),
        memory_kib=(wanted.memory_bytes or 0) // 1024,
        open_files=wanted.open_files or 0,
        processes=wanted.processes or 0,
    )
