"""How each fault is injected and healed. Every function makes a context manager: entering injects, leaving heals."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from chaos.cluster_nodes import ClusterNode
from chaos.fault_runner import Inject
from chaos.installation import Installation
from chaos.observer import AWAY
from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names
from waterclock.proto.codec import decode_frame

_FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)

INSTALLED = {"strace": shutil.which("strace") is not None, "libfaketime": _FAKETIME is not None}
"""The Debian packages that some injections are made with."""
_REFUSED = ("lost its end", "made anew", "were made from one created", "was created")

# -- processes --------------------------------------------------------------------------------------------


def kill(name: str) -> Inject:
    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        installation.kill(name)
        yield

    return inject


def freeze(name: str) -> Inject:
    """The process as it stands; of Postgres all, since its backends work for themselves."""

    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        pid = installation.pid(name)
        assert pid is not None
        pids = [pid, *_children(pid)] if name == "postgres" else [pid]
        for each in pids:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in pids:
                try:
                    os.kill(each, signal.SIGCONT)
                except ProcessLookupError:
                    pass  # the supervisor, or a deadline of its own, was quicker

    return inject


def away(name: str) -> Inject:
    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        await installation.stop([name])
        yield
        await installation.restart([name])

    return inject


# -- the disk under the log -------------------------------------------------------------------------------


def failing_syscalls(call: str, error: str) -> Inject:
    """strace makes the server's calls on the log's files fail. A server that met one is of no use any more, and the
    supervisor starts it anew; that one is not traced."""

    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        pid = installation.pid("nats")
        assert pid is not None
        strace = shutil.which("strace")
        assert strace is not None, "this fault needs strace: apt-get install strace"
        calls = {"fsync": "fsync,fdatasync", "write": "write,pwrite64,writev,pwritev"}[call]
        options = [
            f"--inject={calls}:error={error}",
            f"--trace={calls}",
            "-f",
            "-o",
            "/dev/null",
            "-p",
            str(pid),
        ]
        if call == "write":
            files = sorted((installation.directory / "nats").rglob("*.blk"))
            options += [word for file in files for word in ("-P", str(file))]
        tracer = await asyncio.create_subprocess_exec(
            strace, *options, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        await eventually(lambda: _traced(pid, tracer.pid), "strace to attach", 10, through=AWAY)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                tracer.terminate()
            await tracer.wait()

    return inject


async def _traced(pid: int, tracer: int) -> bool:
    return f"TracerPid:\t{tracer}\n" in _status(pid)


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


# -- a log that is not the one it was ---------------------------------------------------------------------


@asynccontextmanager
async def older_log(installation: Installation) -> AsyncIterator[None]:
    """All is stopped, an older copy of the JetStream directory put in place, and all is started."""
    async with _replaced_log(installation, lambda older, now: shutil.copytree(older, now)):
        yield


@asynccontextmanager
async def truncated_log(installation: Installation) -> AsyncIterator[None]:
    def truncate(_older: Path, now: Path) -> None:
        shutil.copytree(now.with_name("jetstream.good"), now)
        directory = next(now.rglob(f"streams/{names.RUNS}/msgs"))
        for index in directory.glob("index.db"):
            index.unlink()
        block = max(directory.glob("*.blk"), key=lambda file: int(file.stem))
        os.truncate(block, block.stat().st_size // 2)

    async with _replaced_log(installation, truncate):
        yield


@asynccontextmanager
async def deleted_stream(installation: Installation) -> AsyncIterator[None]:
    def delete(_older: Path, now: Path) -> None:
        shutil.copytree(now.with_name("jetstream.good"), now)
        shutil.rmtree(next(now.rglob(f"streams/{names.RUNS}")))

    async with _replaced_log(installation, delete):
        yield


@asynccontextmanager
async def _replaced_log(installation: Installation, replace: Any) -> AsyncIterator[None]:
    """Every component must refuse what it finds, with a message; when the good log is back all goes on."""
    components = installation.component_names
    good = installation.directory / "nats" / "jetstream"
    older, kept = good.with_name("jetstream.older"), good.with_name("jetstream.good")
    await _stop_all(installation)
    shutil.copytree(good, older)
    await _start_all(installation)
    await _folded(installation)
    await _stop_all(installation)
    good.rename(kept)
    replace(older, good)
    marks = {name: len(installation.log_of(name)) for name in components}
    await installation.restart(["nats", "postgres"])
    async with installation.log() as log:
        await ensure_streams(log, Layout())  # as `waterclock up` does: what is missing is made anew
    installation.launch(components)
    try:
        await asyncio.gather(*(_refuses(installation, name, marks[name]) for name in components))
        yield
    finally:
        await _stop_all(installation)
        shutil.rmtree(good)
        kept.rename(good)
        shutil.rmtree(older)
        await _start_all(installation)


async def _refuses(installation: Installation, name: str, since: int) -> None:
    async def said() -> bool:
        return any(words in installation.log_of(name)[since:] for words in _REFUSED)

    await eventually(said, f"{name} to refuse the log", 30, through=AWAY)


async def _folded(installation: Installation) -> None:
    """New frames are in the log, and the projector has seen them."""
    async with installation.log() as log:
        start = (await stream_state(log, names.RUNS)).last_seq

        async def grown() -> bool:
            return (await stream_state(log, names.RUNS)).last_seq > start + 100

        await eventually(grown, "the log to grow", 30, through=AWAY)

    async def seen() -> bool:
        database = await asyncpg.connect(installation.database_url)
        try:
            reached = await database.fetchval(
                "SELECT max(stream_last_sequence) FROM waterclock.projection_state WHERE stream = $1",
                names.RUNS,
            )
        finally:
            await database.close()
        return bool(reached and reached > start + 50)

    await eventually(seen, "the projector to follow", 30, through=AWAY)


async def _stop_all(installation: Installation) -> None:
    await installation.stop(installation.component_names)
    await installation.stop(["nats", "postgres"])


async def _start_all(installation: Installation) -> None:
    await installation.restart(["nats", "postgres"])
    await installation.restart(installation.component_names)


@asynccontextmanager
async def older_postgres(installation: Installation) -> AsyncIterator[None]:
    directory = installation.directory / "postgres"
    older = directory.with_name("postgres.older")
    await installation.stop(["postgres"])
    copying = await asyncio.create_subprocess_exec("cp", "-a", str(directory), str(older))  # keeps owners
    assert await copying.wait() == 0
    await installation.restart(["postgres"])
    await _folded(installation)
    await installation.stop(["postgres"])
    shutil.rmtree(directory)
    older.rename(directory)
    await installation.restart(["postgres"])
    yield


# -- clocks -----------------------------------------------------------------------------------------------


def settable_clock(name: str, directory: Path) -> dict[str, str]:
    """Its wall clock is what a file says it is; its monotonic clock is left alone."""
    assert _FAKETIME is not None, "this fault needs libfaketime: apt-get install libfaketime"
    file = _clock_file(name, directory)
    file.write_text("+0")
    return {
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


def clock_step(name: str, hours: int) -> Inject:
    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        file = _clock_file(name, installation.directory)
        file.write_text(f"{hours * 3600:+d}")
        yield
        file.write_text("+0")

    return inject


def _clock_file(name: str, directory: Path) -> Path:
    return directory / f"{name}.clock"


# -- the network ------------------------------------------------------------------------------------------


def slow(name: str, seconds: float = 0.2) -> Inject:
    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        for proxy in installation.proxies[name]:
            proxy.slow(seconds)
        yield
        for proxy in installation.proxies[name]:
            proxy.heal()

    return inject


def cuts(name: str, times: int = 8) -> Inject:
    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        for _ in range(times):
            for proxy in installation.proxies[name]:
                proxy.cut()
            await asyncio.sleep(0.5)
        yield

    return inject


def half_open(name: str) -> Inject:
    @asynccontextmanager
    async def inject(installation: Installation) -> AsyncIterator[None]:
        for proxy in installation.proxies[name]:
            proxy.silent()
        yield
        for proxy in installation.proxies[name]:
            proxy.heal()

    return inject


# -- deliveries -------------------------------------------------------------------------------------------


@asynccontextmanager
async def deleted_consumers(installation: Installation) -> AsyncIterator[None]:
    """Every consumer of every stream, three times."""
    async with installation.log() as log:
        for _ in range(3):
            for stream in (names.JOBS, names.RUNS, names.WORK):
                found = await log.api(f"CONSUMER.NAMES.{stream}")
                for consumer in found.get("consumers") or []:
                    try:
                        await log.api(f"CONSUMER.DELETE.{stream}.{consumer}")
                    except LogError:
                        pass  # gone by itself
            await asyncio.sleep(1)
        yield


@asynccontextmanager
async def repeated_frames(installation: Installation) -> AsyncIterator[None]:
    """What executors report comes a second time, later, and in another order."""
    async with installation.log() as log, _repeating(log, names.RUNS, [names.runs_subject()], _is_report):
        yield


@asynccontextmanager
async def repeated_work(installation: Installation) -> AsyncIterator[None]:
    """Work comes back after it was taken out of the queue."""
    end: list[Any] = []
    async with installation.log() as log:
        copies: list[tuple[str, bytes]] = []
        end.append(await log.nc.tap("wc.work.>", lambda s, _r, _h, d: copies.append((s.decode(), d))))
        again = asyncio.create_task(_publish_late(log, copies))
        try:
            yield
        finally:
            end[0]()
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)


@asynccontextmanager
async def _repeating(
    log: Connection, stream: str, subjects: Sequence[str], wanted: Any
) -> AsyncIterator[None]:
    copies: list[tuple[str, bytes]] = []

    async def gather() -> None:
        start = (await stream_state(log, stream)).last_seq
        async with Pull.ordered(log, stream, subjects, after_sequence=start) as pull:
            while True:
                for delivery in await pull.next():
                    is_copy = delivery.headers is not None and "Chaos-Copy" in delivery.headers
                    if not is_copy and wanted(delivery.data):
                        copies.append((delivery.subject, delivery.data))

    tasks = [asyncio.create_task(gather()), asyncio.create_task(_publish_late(log, copies))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _publish_late(log: Connection, copies: list[tuple[str, bytes]]) -> None:
    while True:
        await asyncio.sleep(0.3)
        batch, copies[:] = copies[:], []
        random.shuffle(batch)
        for subject, data in batch:
            await log.nc.publish(subject, data, headers={"Chaos-Copy": "1"})
        copies[:] = [copy for copy in copies if copy not in batch]


def _is_report(data: bytes) -> bool:
    """An executor's frame: an owner's has a cursor, and is fenced."""
    return decode_frame(data).cursor is None


# -- a cluster --------------------------------------------------------------------------------------------


async def leader_of(log: Connection, stream: str = names.RUNS) -> str:
    async def named() -> str | None:
        info = await log.api(f"STREAM.INFO.{stream}")
        leader: str | None = info["cluster"].get("leader")
        return leader

    return await eventually(named, f"a leader of {stream}", 20, through=AWAY)


@asynccontextmanager
async def kill_leader(installation: Installation) -> AsyncIterator[None]:
    async with installation.log() as log:
        installation.kill(await leader_of(log))
    yield


@asynccontextmanager
async def kill_follower(installation: Installation) -> AsyncIterator[None]:
    async with installation.log() as log:
        leader = await leader_of(log)
    installation.kill(next(name for name in installation.broker_names if name != leader))
    yield


@asynccontextmanager
async def freeze_leader(installation: Installation) -> AsyncIterator[None]:
    async with installation.log() as log:
        leader = await leader_of(log)
    async with freeze(leader)(installation):
        yield


@asynccontextmanager
async def partition_leader(installation: Installation) -> AsyncIterator[None]:
    """No byte between it and anybody, in either direction."""
    async with installation.log() as log:
        leader = await leader_of(log)
    nodes = [server for server in installation.servers if isinstance(server, ClusterNode)]
    place = [node.name for node in nodes].index(leader)
    ways = [proxy for node in nodes for name, proxy in node.routes.items() if leader in (node.name, name)]
    ways += [proxies[place] for name, proxies in installation.proxies.items() if "/" not in name]
    for proxy in ways:
        proxy.silent()
    yield
    for proxy in ways:
        proxy.heal()


@asynccontextmanager
async def rolling_restart(installation: Installation) -> AsyncIterator[None]:
    """One after the other, the next when the last is healthy again."""
    for name in installation.broker_names:
        await installation.stop([name])
        await installation.restart([name])
    yield


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found
