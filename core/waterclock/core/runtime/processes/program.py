"""What the supervisor starts: programs, and how each of them shows that it does its work."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from waterclock.core.runtime.lifecycle import READY_FD
from waterclock.core.runtime.ports import Port
from waterclock.core.runtime.processes.process import Process, spawn
from waterclock.core.runtime.settings import SECRETS_FD


class ProgramFailed(Exception):
    """It did not come up, or came up in a way we must not run on."""


class Launched(Protocol):
    """One life of a program."""

    @property
    def process(self) -> Process: ...

    async def until_ready(self) -> None:
        """Return when the process does its work, never if it dies before; raise if it must not be used."""

    async def until_failing(self) -> str:
        """Return why the process, once ready, is of no use any more though it lives; usually never."""

    def lost_port(self) -> bool:
        """Asked when the process is gone: whether somebody else listens on one of its ports."""

    def close(self) -> None:
        """Call when the process is gone."""


class Program(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def stop_signal(self) -> signal.Signals: ...

    @property
    def grace(self) -> float:
        """Seconds between the stop signal and the kill."""

    def launch(self) -> Launched: ...


class Component:
    """One of our own services. It inherits a pipe and writes to it when it is ready (`lifecycle.ready`), and another
    from which it reads the settings that are secret.

    `ports` are secured at every start and given in environment variables of these names. What it prints goes to `log`,
    or where ours goes.
    """

    stop_signal = signal.SIGTERM

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        grace: float,
        log: Path | None = None,
        ports: Mapping[str, Port] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.grace = grace
        self._argv = argv
        self._env = env
        self._log = log
        self._ports = ports or {}
        self._secrets = msgspec.json.encode(secrets or {})

    def launch(self) -> Launched:
        ports = {variable: str(port.secure()) for variable, port in self._ports.items()}
        reader, writer = os.pipe()
        secrets, pen = os.pipe()
        os.write(pen, self._secrets)  # far less than a pipe holds
        os.close(pen)
        try:
            process = spawn(
                self._argv,
                env={**self._env, **ports, READY_FD: str(writer), SECRETS_FD: str(secrets)},
                pass_fds=[writer, secrets],
                log=self._log,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
            os.close(secrets)
        return _LaunchedComponent(process, reader, list(self._ports.values()))


class _LaunchedComponent:
    def __init__(self, process: Process, pipe: int, ports: Sequence[Port]) -> None:
        self.process = process
        self._pipe = pipe
        self._ports = ports

    async def until_ready(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._pipe, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._pipe)
        if os.read(self._pipe, 1) == b"":
            await loop.create_future()

    async def until_failing(self) -> str:
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never  # a component that cannot work ends

    def lost_port(self) -> bool:
        return any(port.is_lost() for port in self._ports)

    def close(self) -> None:
        os.close(self._pipe)
