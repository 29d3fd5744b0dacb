"""The executor's side of its warden."""

import asyncio
import logging
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import cast

from waterclock.executor.warden.abandoned import end_forsaken, remove_forsaken_rooms, room_prefix
from waterclock.executor.warden.messages import (
    Exited,
    Limits,
    Order,
    Output,
    Refused,
    Renew,
    Start,
    Stop,
    Unpacker,
    decode_word,
    packed,
)
from waterclock.executor.warden.working_directories import Directories

_log = logging.getLogger(__name__)


class WardenLost(Exception):
    """The warden died, and with it our hold on what it had started."""


class CannotStart(Exception):
    """The program does not exist, may not be run, or its arguments are too long."""


class Process:
    """A started process: `ended` resolves once nothing of it is left."""

    def __init__(self, number: int, ended: "asyncio.Future[Exited]", hear: Callable[[bytes], None]) -> None:
        self.number = number
        self.ended = ended
        self.hear = hear


class Processes(asyncio.Protocol):
    """Starts and stops processes through the warden."""

    def __init__(self, root: Path) -> None:
        self.root = root
        """Where working directories are; what is left there goes with us."""
        self.directories = Directories(root)
        self._transport: asyncio.WriteTransport | None = None
        self._unpacker = Unpacker()
        self._numbers = count(1)
        self._live: dict[int, Process] = {}
        self._orders: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Fails when the warden dies."""

    @classmethod
    @asynccontextmanager
    async def open(cls, root: Path | None = None) -> AsyncIterator["Processes"]:
        """Start a warden whose working directories lie under `root` (the system's temporary directory)."""
        await asyncio.to_thread(_clear_up, root)
        work = Path(tempfile.mkdtemp(prefix=room_prefix(), dir=root))
        ours, theirs = socket.socketpair()
        with theirs:
            warden = _start_warden(theirs.fileno(), work)
        loop = asyncio.get_running_loop()
        transport, processes = await loop.create_connection(lambda: cls(work), sock=ours)
        try:
            yield processes
        finally:
            processes._transport = None
            transport.close()
            await asyncio.to_thread(warden.wait)
            processes.directories.close()
            await asyncio.to_thread(shutil.rmtree, work, True)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        directory: str,
        stdin: bytes,
        hear: Callable[[bytes], None],
        output_bytes: int,
        limits: Limits,
        identity: tuple[int, int] | None = None,
        lease_seconds: float = 0.0,
    ) -> Process:
        """`ended` fails with CannotStart if it could not be started; `hear` gets its output, piece by piece."""
        number = next(self._numbers)
        process = Process(number, self._loop.create_future(), hear)
        self._live[number] = process
        self._order(
            Start(
                number, list(argv), dict(env), directory, stdin, output_bytes, limits, identity, lease_seconds
            )
        )
        return process

    def renew(self, process: Process, seconds: float) -> None:
        """Let a process that lives on a lease live so much longer."""
        if process.number in self._live:
            self._order(Renew(process.number, seconds))

    def stop(self, process: Process, *, grace: float) -> None:
        """TERM to all of it, KILL after `grace` seconds. Harmless when it is gone."""
        if process.number in self._live:
            self._order(Stop(process.number, grace))

    def _order(self, order: Order) -> None:
        """Orders of one turn of the loop go together: the warden wakes once for them."""
        if self._transport is None:
            raise WardenLost
        if not self._orders:
            self._loop.call_soon(self._send_orders)
        self._orders.append(packed(order))

    def _send_orders(self) -> None:
        orders, self._orders = self._orders, []
        if self._transport is not None:
            self._transport.write(b"".join(orders))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        for body in self._unpacker.feed(data):
            match decode_word(body):
                case Output(ward=number, data=heard):
                    self._live[number].hear(heard)
                case Exited() as exited:
                    _resolve(self._live.pop(exited.ward).ended, exited)
                case Refused(ward=number, reason=reason):
                    _fail(self._live.pop(number).ended, CannotStart(reason))

    def connection_lost(self, error: Exception | None) -> None:
        asked_for = self._transport is None
        self._transport = None
        for process in self._live.values():
            _fail(process.ended, WardenLost())
        self._live.clear()
        if not asked_for:
            _fail(self.lost, WardenLost())


def _clear_up(root: Path | None) -> None:
    """End what an executor has left that was killed together with its warden."""
    if ended := end_forsaken():
        _log.warning("ended processes that an executor had left behind", extra={"processes": ended})
    remove_forsaken_rooms(root or Path(tempfile.gettempdir()))


def _start_warden(link: int, work: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "waterclock.executor.warden", str(link), str(work)],
        pass_fds=[link],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _resolve(future: "asyncio.Future[Exited]", exited: Exited) -> None:
    if not future.done():
        future.set_result(exited)


def _fail(future: "asyncio.Future[Exited] | asyncio.Future[None]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # heard here; whoever awaits it hears it again
