"""Keeps the processes of one `waterclock up` running, and `processes.json` true.

A `Child` is one process that is kept running: started, watched, started again when it ends, stopped when asked.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType

from waterclock.core.runtime.data_directory import write_processes
from waterclock.core.runtime.lifecycle import WRONG_USAGE
from waterclock.core.runtime.processes.process import Process
from waterclock.core.runtime.processes.program import Launched, Program, ProgramFailed
from waterclock.core.runtime.tasks import supervised

FIRST = 0.1
LONGEST = 5.0
STABLE = 10.0


class Backoff:
    """Doubles with every early end; one that lived for a while is forgiven."""

    def __init__(self, *, first: float = FIRST, longest: float = LONGEST, stable: float = STABLE) -> None:
        self._first = first
        self._longest = longest
        self._stable = stable
        self._next = first

    def after(self, lived: float) -> float:
        if lived >= self._stable:
            self._next = self._first
        wait = self._next
        self._next = min(wait * 2, self._longest)
        return wait


_EARLY_ENDS = 3
"""So many ends before it was ever ready mean that it never will be."""

_KILLED_WITHIN = 10.0

_log = logging.getLogger(__name__)


class ChildFailed(Exception):
    """It never got ready, and another start would not help."""

    def __init__(self, name: str, reason: str, exit_code: int | None) -> None:
        super().__init__(f"{name} {reason}")
        self.exit_code = exit_code


class Child:
    """`run` is the one task that owns the process.

    `changed` is called whenever `pid` has changed, `ready` whenever the process has begun to do its work.
    """

    def __init__(
        self,
        program: Program,
        *,
        changed: Callable[[], None],
        ready: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = program.name
        self._program = program
        self._changed = changed
        self._ready = ready
        self._backoff = backoff or Backoff()
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._gone = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._early_ends = 0
        self._lost_port = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def started(self) -> None:
        """Wait until it has been ready once; raises ChildFailed when it will not be."""
        await asyncio.shield(self._started)

    async def run(self) -> None:
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                exit_code = await self._live_once()
                if self._stopping.is_set() or self._given_up(exit_code):
                    break
                await self._pause(exit_code, lived=time.monotonic() - began)
        finally:
            self._started.cancel()
            self._gone.set()

    async def stop(self) -> None:
        """Ask it to end, and kill it when its grace is over. Returns when it is gone; may be called again."""
        self._stopping.set()
        if self._process is not None:
            self._process.send(self._program.stop_signal)
        try:
            await asyncio.wait_for(self._gone.wait(), self._program.grace)
        except TimeoutError:
            _log.warning(
                "child did not end in time: killing it", extra={"child": self.name, "child_pid": self.pid}
            )
            self.kill()
            await self._gone.wait()

    def restart(self) -> None:
        """End the process, which is then started again; it is killed when its grace is over."""
        process = self._process
        if process is not None:
            process.send(self._program.stop_signal)
            asyncio.get_running_loop().call_later(self._program.grace, process.kill)

    def kill(self) -> None:
        self._stopping.set()
        if self._process is not None:
            self._process.kill()

    async def _live_once(self) -> int | None:
        """Its exit code, None when it could not even be started."""
        self._lost_port = False
        try:
            launched = self._program.launch()
        except (OSError, ProgramFailed) as error:
            _log.error("child cannot be started", extra={"child": self.name, "reason": str(error)})
            return None
        self._process = launched.process
        self._changed()
        try:
            async with supervised() as tasks:
                tasks.spawn(self._announce(launched), name=f"readiness of {self.name}")
                return await launched.process.wait()
        finally:
            if launched.process.alive:
                launched.process.kill()
                launched.process.wait_blocking(_KILLED_WITHIN)
            self._lost_port = launched.lost_port()
            launched.close()
            self._process = None
            self._changed()

    async def _announce(self, launched: Launched) -> None:
        try:
            await launched.until_ready()
        except ProgramFailed as error:
            _log.error("child must not be used", extra={"child": self.name, "reason": str(error)})
            self._fail(str(error), None)
            launched.process.kill()
            return
        _log.info("child is ready", extra={"child": self.name, "child_pid": launched.process.pid})
        self._ready()
        if not self._started.done():
            self._started.set_result(None)
        reason = await launched.until_failing()
        _log.error("child is of no use any more: killing it", extra={"child": self.name, "reason": reason})
        launched.process.kill()

    def _given_up(self, exit_code: int | None) -> bool:
        if self._started.done():
            return self._started.exception() is not None
        self._early_ends += not self._lost_port  # with another port it may be well
        if exit_code == WRONG_USAGE or self._early_ends >= _EARLY_ENDS:
            self._fail(f"{_ended(exit_code)} before it was ready", exit_code)
            return True
        return False

    def _fail(self, reason: str, exit_code: int | None) -> None:
        if not self._started.done():
            self._started.set_exception(ChildFailed(self.name, reason, exit_code))
            self._started.exception()  # seen: not everybody waits for it

    async def _pause(self, exit_code: int | None, *, lived: float) -> None:
        wait = self._backoff.after(lived)
        facts = {"child": self.name, "end": _ended(exit_code), "lived": round(lived, 3), "restart_in": wait}
        _log.warning("child ended: starting it again", extra=facts)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), wait)


def _ended(exit_code: int | None) -> str:
    if exit_code is None:
        return "could not be started"
    if exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"exited with {exit_code}"


class Supervisor:
    """A scope: groups are started one after the other and, when it ends, stopped in reverse order.

    What dies in between is started again. Should the supervisor itself be killed, the kernel ends its children.
    `ready` is called whenever one of them has begun to do its work, for the first time or again.
    """

    def __init__(self, data: Path, *, names: Sequence[str], ready: Callable[[], None] = lambda: None) -> None:
        self._data = data
        self._ready = ready
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
        group = [Child(program, changed=self._record, ready=self._ready) for program in programs]
        self._groups.append(group)
        for child in group:
            self._tasks.create_task(child.run(), name=child.name)
        await asyncio.gather(*(child.started() for child in group))

    async def stop(self) -> None:
        for group in reversed(self._groups):
            await asyncio.gather(*(child.stop() for child in group))

    def restart(self, names: Collection[str]) -> None:
        """End the children of these names; they are started again."""
        for child in self._children():
            if child.name in names:
                child.restart()

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
