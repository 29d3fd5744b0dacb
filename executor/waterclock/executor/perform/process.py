"""Shell commands and programs: started through the warden, with an environment of their own."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import msgspec

from waterclock.core.domain.instants import rfc3339
from waterclock.executor.attempt_record import Attempt, Details, Failed, Result, Succeeded
from waterclock.executor.in_flight import RunningAttempt, StopCause, result_of_stop
from waterclock.executor.limits.exactly_once import HELD_SECONDS
from waterclock.executor.logs.output import OutputLog, OutputLogs
from waterclock.executor.perform.results import parse_output
from waterclock.executor.warden.client import CannotStart, Process, WardenClient
from waterclock.executor.warden.messages import Exited, Limits
from waterclock.proto import policies
from waterclock.proto.policies import Value
from waterclock.proto.spec import Argv, Shell

_INHERITED = ("PATH", "HOME", "LANG", "TZ")

_MAX_VARIABLE_BYTES = 96 * 1024
"""The kernel takes no longer string than 128 KiB; a larger payload is on stdin only."""
_NO_LIMITS = Limits()
_OVER = {"SIGXCPU": ": over its CPU limit", "SIGXFSZ": ": over the limit on the size of a file"}
_SIGNAL_EXIT_CODE = 128
"""A process ended by a signal has no exit code; shells show this plus the signal's number."""

_encode = msgspec.json.Encoder().encode


class ProcessPerformer:
    def __init__(self, warden: WardenClient, outputs: OutputLogs, most: Limits = _NO_LIMITS) -> None:
        """`most`: what a job may ask for at most; 0 is any number."""
        self._warden = warden
        self._outputs = outputs
        self._most = most
        self._directories = warden.directories
        self._home = Path.cwd()

    async def perform(self, attempt: Attempt, running: RunningAttempt) -> Result:
        task = attempt.item.spec.task
        match task:
            case Shell():
                return await self.run(attempt, running, ("/bin/sh", "-c", task.command), task.env)
            case Argv():
                return await self.run(attempt, running, self._resolve_program(task.command), task.env)
            case _:
                raise TypeError(f"not a process: {task}")

    async def run(
        self,
        attempt: Attempt,
        running: RunningAttempt,
        argv: Sequence[str],
        own_env: Mapping[str, Value],
        directory: str | None = None,
    ) -> Result:
        """Run a program to its end, or until the attempt is stopped and nothing of it is left.

        In a fresh directory, or in the one given. It is removed afterwards.
        """
        directory = directory or self._directories.take()
        directory_free = False
        try:
            result, directory_free = await self._run(attempt, running, argv, own_env, directory)
            return result
        finally:
            if not (directory_free and self._directories.take_back(directory)):
                await self._directories.remove(directory)

    async def _run(
        self,
        attempt: Attempt,
        running: RunningAttempt,
        argv: Sequence[str],
        own_env: Mapping[str, Value],
        directory: str,
    ) -> tuple[Result, bool]:
        """The result, and whether certainly no process is left that could use the directory."""
        log = self._outputs.open(attempt, running.secret_values)
        payload = payload_of(attempt)
        process = self._warden.start(
            argv,
            environment_of(attempt, running.filled(own_env), payload, home=self._home_of(directory)),
            directory=directory,
            stdin=payload,
            on_output=log.write,
            output_bytes=self._outputs.limit_of(attempt.item.spec),
            limits=limits_of(attempt.item.spec.limits, self._most),
            lease_seconds=HELD_SECONDS if attempt.fencing_token is not None else 0.0,
        )

        def interrupt(cause: StopCause) -> None:
            self._warden.stop(process, grace=cause.grace)

        running.set_interrupt(interrupt)
        running.on_lease_renewal(lambda seconds: self._warden.renew(process, seconds))
        try:
            exited = await self._exit_of(process)
        finally:
            running.clear_interrupt()
        if isinstance(exited, CannotStart):
            return await log.save(Failed(reason=log.mask(str(exited)))), True
        log.finish(exited.dropped)
        return await log.save(_result(exited, running.stop_cause, log)), not exited.orphans

    async def _exit_of(self, process: Process) -> Exited | CannotStart:
        """Also if our own task is cancelled, the process is killed: none is left to itself."""
        try:
            exited = await asyncio.shield(process.ended)
        except CannotStart as error:
            return error
        except asyncio.CancelledError:
            self._warden.stop(process, grace=0)
            raise
        return exited

    def _home_of(self, directory: str) -> str | None:
        """A user of the job's own has no home, and cannot reach ours."""
        return None if self._directories.owner_of(directory) is None else directory

    def _resolve_program(self, command: Sequence[str]) -> Sequence[str]:
        """A program named by a relative path is looked for where the executor was started."""
        program = command[0]
        if "/" in program and not os.path.isabs(program):
            return (str(self._home / program), *command[1:])
        return command


def _result(exited: Exited, cause: StopCause | None, log: OutputLog) -> Result:
    details = Details(
        exit_code=exited.code if exited.code >= 0 else _SIGNAL_EXIT_CODE - exited.code,
        cpu_seconds=round(exited.cpu_seconds, 6),
        memory_bytes=exited.memory_bytes or None,
    )
    output = parse_output(exited.last_line)
    if cause is not None:
        return result_of_stop(cause, details, log.tail())
    if exited.lapsed:
        return Failed(reason="its lease was not renewed in time", error_message=log.tail(), details=details)
    if exited.code == 0:
        return Succeeded(output=output, details=details)
    return Failed(reason=_reason(exited.code), error_message=log.tail(), output=output, details=details)


def _reason(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}{_OVER.get(name, '')}"


def limits_of(wanted: policies.Limits | None, most: Limits) -> Limits:
    """What a job asked for, in the units of `ulimit`, and no more than it may have."""
    if wanted is None:
        return _NO_LIMITS
    return Limits(
        cpu_seconds=ceil(wanted.cpu_seconds or 0),
        memory_kib=ceil((wanted.memory_bytes or 0) / 1024),
        open_files=wanted.open_files or 0,
        processes=_at_most(wanted.processes, most.processes),
        file_blocks=_at_most(ceil((wanted.file_bytes or 0) / 512), most.file_blocks),
    )


def _at_most(wanted: int | None, most: int) -> int:
    return min(wanted or 0, most) if most else wanted or 0


def payload_of(attempt: Attempt) -> bytes:
    """The payload as the job reads it; empty if there is none."""
    payload = attempt.item.spec.payload
    return b"" if payload is None else _encode(payload)


def environment_of(
    attempt: Attempt,
    own: Mapping[str, str],
    payload: bytes,
    base: Mapping[str, str] = os.environ,
    home: str | None = None,
) -> dict[str, str]:
    """A few variables of the executor's, the job's own, and the facts of the attempt."""
    item = attempt.item
    env = {name: base[name] for name in _INHERITED if name in base}
    if home is not None:
        env["HOME"] = home
    env.setdefault("PATH", os.defpath)
    env.update(own)
    env["WATERCLOCK_RUN_ID"] = item.run_id
    env["WATERCLOCK_JOB_ID"] = item.job_id
    env["WATERCLOCK_ATTEMPT"] = str(item.attempt)
    env["WATERCLOCK_SCHEDULED_TIME"] = rfc3339(item.scheduled)
    env["WATERCLOCK_IDEMPOTENCY_KEY"] = item.run_id
    # These two are set, to nothing, also where there is no value: a script under `set -u` may name them.
    env["WATERCLOCK_FENCING_TOKEN"] = "" if attempt.fencing_token is None else str(attempt.fencing_token)
    env["WATERCLOCK_PAYLOAD"] = payload.decode() if len(payload) <= _MAX_VARIABLE_BYTES else ""
    if item.index is not None:
        env["WATERCLOCK_INDEX"] = str(item.index)
    return env
