"""Keeps the processes of one `waterclock up` running, and keeps `processes.json` true."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from waterclock.core.runtime.data_directory import write_processes
from waterclock.core.runtime.processes.child import Child
from waterclock.core.runtime.processes.program import Program

_log = logging.getLogger(__name__)


class Supervisor:
    """A scope: groups are started one after the other and, when it ends, stopped in reverse order.

    What dies in between is started again. Should the supervisor itself be killed, the kernel ends its children.
    """

    def __init__(self, data: Path, *, names: Sequence[str]) -> None:
        self._data = data
        self._names = names
        self._groups: list[list[Child]] = []
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> "Supervisor":
        self._record()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.stop()
        finally:
            self.kill()
            await self._tasks.__aexit__(None, None, None)

    async def start(self, programs: Sequence[Program]) -> None:
        """Start these together; return when all do their work. Raises ChildFailed when one never will."""
        group = [Child(program, changed=self._record) for program in programs]
        self._groups.append(group)
        for child in group:
            self._tasks.create_task(child.run(), name=child.name)
        await asyncio.gather(*(child.started() for child in group))

    async def stop(self) -> None:
        for group in reversed(self._groups):
            await asyncio.gather(*(child.stop() for child in group))

    def kill(self) -> None:
        """End everything at once."""
        for child in self._children():
            child.kill()

    def _children(self) -> list[Child]:
        return [child for group in self._groups for child in group]

    def _record(self) -> None:
        """A full disk must not take down what still runs."""
        pids: dict[str, list[int]] = {name: [] for name in self._names}
        for child in self._children():
            if child.pid is not None:
                pids.setdefault(child.name, []).append(child.pid)
        try:
            write_processes(self._data, pids)
        except OSError as error:
            _log.error("cannot write processes.json", extra={"reason": str(error)})
