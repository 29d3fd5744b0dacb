"""The executor's side of its warden: starts it, sends it requests, and receives its reports."""

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

import msgspec
from msgspec import structs

from waterclock.executor.warden import cgroup
from waterclock.executor.warden.abandoned import (
    directory_prefix,
    kill_abandoned,
    remove_abandoned_directories,
)
from waterclock.executor.warden.confinement import ARTIFACTS, Confinement
from waterclock.executor.warden.job_users import JobUsers
from waterclock.executor.warden.messages import (
    Confined,
    Exited,
    Limits,
    Output,
    Renew,
    Request,
    Start,
    StartFailed,
    Stop,
    Unpacker,
    decode_report,
    pack,
)
from waterclock.executor.warden.working_directories import WorkingDirectories

_log = logging.getLogger(__name__)


class WardenLost(Exception):
    """The warden died, and with it all knowledge of what it had started."""


class CannotStart(Exception):
    """The program does not exist, may not be run, or its arguments are too long."""


class Process:
    """A started process: `ended` resolves once nothing of it is left."""

    def __init__(
        self, number: int, ended: "asyncio.Future[Exited]", on_output: Callable[[bytes], None]
    ) -> None:
        self.number = number
        self.ended = ended
        self.on_output = on_output


class WardenClient(asyncio.Protocol):
    """Starts and stops processes through the warden."""

    def __init__(self, root: Path, users: JobUsers | None = None) -> None:
        self.root = root
        """Where working directories are. It is removed with everything in it when the executor ends."""
        self.directories = WorkingDirectories(root, users)
        self.protections: dict[str, str] = {}
        """What protects this machine from jobs: each with nothing, or with why it does not."""
        self._transport: asyncio.WriteTransport | None = None
        self._unpacker = Unpacker()
        self._numbers = count(1)
        self._live: dict[int, Process] = {}
        self._requests: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._confined: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        root: Path | None = None,
        *,
        confinement: Confinement | None = None,
        users: JobUsers | None = None,
    ) -> AsyncIterator["WardenClient"]:
        """Start a warden whose working directories lie under `root` (the system's temporary directory), and each of
        which belongs to one of the users."""
        await asyncio.to_thread(_clear_up, root)
        work = _make_root(root)
        wanted = structs.replace(confinement or Confinement(), artifacts_at=str(work / ARTIFACTS))
        ours, theirs = socket.socketpair()
        with theirs:
            warden = _start_warden(theirs.fileno(), work, wanted)
        loop = asyncio.get_running_loop()
        transport, client = await loop.create_connection(lambda: cls(work, users), sock=ours)
        try:
            await client._confined
            yield client
        finally:
            client._transport = None
            transport.close()
            await asyncio.to_thread(warden.wait)
            client.directories.close()
            await asyncio.to_thread(shutil.rmtree, work, True)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        directory: str,
        stdin: bytes,
        on_output: Callable[[bytes], None],
        output_bytes: int,
        limits: Limits,
        lease_seconds: float = 0.0,
        unpack: str = "",
    ) -> Process:
        """`ended` fails with CannotStart if it could not be started; `on_output` gets its output, piece by piece."""
        number = next(self._numbers)
        process = Process(number, self._loop.create_future(), on_output)
        self._live[number] = process
        self._request(
            Start(
                number,
                list(argv),
                dict(env),
                directory,
                stdin,
                output_bytes,
                limits,
                self.directories.owner_of(directory),
                lease_seconds,
                unpack,
            )
        )
        return process

    def renew(self, process: Process, seconds: float) -> None:
        """Let a process that lives on a lease live so much longer."""
        if process.number in self._live:
            self._request(Renew(process.number, seconds))

    def stop(self, process: Process, *, grace: float) -> None:
        """TERM to all of it, KILL after `grace` seconds. Harmless when it is gone."""
        if process.number in self._live:
            self._request(Stop(process.number, grace))

    async def until_lost(self) -> None:
        """Raises WardenLost when the warden dies: without it we do not know what runs."""
        await self._lost

    def _request(self, request: Request) -> None:
        """Requests of one turn of the loop are sent together, so that the warden wakes once for them."""
        if self._transport is None:
            raise WardenLost
        if not self._requests:
            self._loop.call_soon(self._send_requests)
        self._requests.append(pack(request))

    def _send_requests(self) -> None:
        requests, self._requests = self._requests, []
        if self._transport is not None:
            self._transport.write(b"".join(requests))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        for body in self._unpacker.feed(data):
            match decode_report(body):
                case Confined(protections=protections):
                    self.protections = protections
                    self._confined.set_result(None)
                case Output(number=number, data=data):
                    self._live[number].on_output(data)
                case Exited() as exited:
                    _resolve(self._live.pop(exited.number).ended, exited)
                case StartFailed(number=number, reason=reason):
                    _fail(self._live.pop(number).ended, CannotStart(reason))

    def connection_lost(self, error: Exception | None) -> None:
        asked_for = self._transport is None
        self._transport = None
        for process in self._live.values():
            _fail(process.ended, WardenLost())
        self._live.clear()
        _fail(self._confined, WardenLost())
        if not asked_for:
            _fail(self._lost, WardenLost())


def _clear_up(root: Path | None) -> None:
    """Remove what an executor has left that was killed together with its warden."""
    if killed := kill_abandoned():
        _log.warning("killed processes that an executor had left behind", extra={"processes": killed})
    remove_abandoned_directories(root or Path(tempfile.gettempdir()))
    cgroup.remove_empty()


def _make_root(parent: Path | None) -> Path:
    """A job of another user must get to its own directory in it, and may not see which others there are."""
    root = Path(tempfile.mkdtemp(prefix=directory_prefix(), dir=parent))
    root.chmod(0o711)
    return root


def _start_warden(link: int, work: Path, confinement: Confinement) -> "subprocess.Popen[bytes]":
    wanted = msgspec.json.encode(confinement).decode()
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "waterclock.executor.warden", str(link), str(work), wanted],
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
        future.exception()  # marks it as retrieved; whoever awaits it gets it all the same
