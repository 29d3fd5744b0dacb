"""Shell commands and programs.

The environment a process sees: a few variables of ours, the job's own, and what is known about the attempt.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

import msgspec

from waterclock.executor import attempt_record
from waterclock.executor.attempt_record import Attempt
from waterclock.executor.in_flight import Cause, Running, ended_by
from waterclock.executor.limits.leases import HELD_SECONDS
from waterclock.executor.logs.output import OutputLog, Outputs
from waterclock.executor.perform.results import from_line
from waterclock.executor.warden.client import CannotStart, Process, Processes
from waterclock.executor.warden.messages import Exited, Limits
from waterclock.proto import policies
from waterclock.proto.spec import Argv, Shell

PASSED_ON = ("PATH", "HOME", "LANG", "TZ")

_LONGEST_VALUE = 96 * 1024
"""The kernel takes no longer string than 128 KiB; a larger payload is on stdin only."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encode = msgspec.json.Encoder().encode


def payload_of(attempt: Attempt) -> bytes:
    """The payload as the job reads it; empty if there is none."""
    payload = attempt.item.spec.payload
    return b"" if payload is None else _encode(payload)


def environment(
    attempt: Attempt, own: Mapping[str, str], payload: bytes, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    item = attempt.item
    env = {name: base[name] for name in PASSED_ON if name in base}
    env.setdefault("PATH", os.defpath)
    env.update(own)
    env["WATERCLOCK_RUN_ID"] = item.run_id
    env["WATERCLOCK_JOB_ID"] = item.job_id
    env["WATERCLOCK_ATTEMPT"] = str(item.attempt)
    env["WATERCLOCK_SCHEDULED_TIME"] = scheduled_text(item.scheduled)
    env["WATERCLOCK_IDEMPOTENCY_KEY"] = item.run_id
    # These two are there, empty, also where there is nothing to say: a script under `set -u` may name them.
    env["WATERCLOCK_FENCING_TOKEN"] = "" if attempt.fencing_token is None else str(attempt.fencing_token)
    env["WATERCLOCK_PAYLOAD"] = payload.decode() if len(payload) <= _LONGEST_VALUE else ""
    if item.index is not None:
        env["WATERCLOCK_INDEX"] = str(item.index)
    return env


def scheduled_text(instant: int) -> str:
    """RFC 3339, in UTC."""
    return (_EPOCH + timedelta(microseconds=instant)).isoformat().replace("+00:00", "Z")


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

    async def perform(self, attempt: Attempt, running: Running) -> attempt_record.Ending:
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
    ) -> attempt_record.Ending:
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
    ) -> tuple[attempt_record.Ending, bool]:
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
            return await log.kept(attempt_record.Failed(reason=log.mask(str(exited)))), True
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


def _ending(exited: Exited, cause: Cause | None, log: OutputLog) -> attempt_record.Ending:
    traces = attempt_record.Traces(
        exit_code=exited.code if exited.code >= 0 else _SIGNALLED - exited.code,
        cpu_seconds=round(exited.cpu_seconds, 6),
        memory_bytes=exited.memory_bytes or None,
    )
    output = from_line(exited.last_line)
    if cause is not None:
        return ended_by(cause, traces, log.tail())
    if exited.lapsed:
        return attempt_record.Failed(
            reason="its lease was not renewed in time", error_message=log.tail(), traces=traces
        )
    if exited.code == 0:
        return attempt_record.Succeeded(output=output, traces=traces)
    return attempt_record.Failed(
        reason=_reason(exited.code), error_message=log.tail(), output=output, traces=traces
    )


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
