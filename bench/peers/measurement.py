"""A peer at work: its server, its workers, its jobs, and what they noted when they ran."""

import asyncio
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from bench import accounting, servers
from bench.peers.environment import CACHE, NotInstalled, environment, installed_versions
from bench.peers.peer import Peer
from bench.plan import Plan
from bench.quantiles import curve, lag_figures
from bench.result import Result

PROGRAMS = Path(__file__).parent / "programs"
_SERVERS = {"redis": servers.redis, "postgres": servers.postgres, "nats": servers.nats}
_WARM = 50
_TRIAL = 200
_RECORD = struct.Struct("<qd")
_WITHIN = 60.0
"""How long either part may take; a peer that needs longer is reported with what it did."""


async def measure(name: str, peer: Peer, plan: Plan) -> AsyncGenerator[Result, None]:
    try:
        program = await environment(name, peer)
    except NotInstalled as error:
        yield Result(name=f"peer/{name}", figures={"title": peer.title, "not_installed": str(error)})
        return
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory,
        _SERVERS[peer.server](Path(directory) / peer.server) as server,
    ):
        async with _at_work(name, peer, program, server, Path(directory)) as work:
            figures, cpu = await work.throughput(plan.count(peer.jobs, quick=peer.jobs // 4))
            crowd = plan.count(peer.crowd, quick=peer.crowd)
            lags, stored = await work.lags(crowd)
    yield Result(
        name=f"peer/{name}",
        figures={
            "title": peer.title,
            "server": peer.server,
            **figures,
            "crowd": crowd,
            "crowd_missing": crowd - len(lags),
            "stored_rate": stored,
            **(lag_figures(lags) if lags else {}),
            "remark": peer.remark,
            "versions": ", ".join(f"{k} {v}" for k, v in (await installed_versions(name, peer)).items()),
        },
        cpu=cpu,
        curve=curve(lags),
    )


class _Work:
    def __init__(self, peer: Peer, launch: list[str], env: dict[str, str], record: Path, log: Path) -> None:
        self._peer = peer
        self._launch = launch
        self._env = env
        self._record = record
        self._log = log
        self._submitted = 0
        self.pids: dict[str, list[int]] = {}

    async def throughput(self, count: int) -> tuple[dict[str, float | int | str | None], dict[str, float]]:
        """From the first submit until the last has ended, the workers running all the while."""
        await self._submit(_WARM)
        if len(await self._until(_WARM, _WITHIN)) < _WARM:
            raise RuntimeError(f"its worker does not work: {self._log.read_text(errors='replace')[-800:]}")
        opening = accounting.take(self.pids)
        began, spent = await self._submit(count)
        done = await self._until(count, _WITHIN)
        closing = accounting.take(self.pids) | {"client": opening["client"] + spent}
        ended = max(done.values(), default=began)
        rate = len(done) / (ended - began) if done else 0.0
        figures: dict[str, float | int | str | None] = {
            "jobs": len(done),
            "missing": count - len(done),
            "rate": round(rate),
        }
        return figures, accounting.per_thousand(opening, closing, max(len(done), 1))

    async def lags(self, crowd: int) -> tuple[list[float], int]:
        """Start lags of jobs due at one instant, all stored before it; and how many were stored a second."""
        launching = time.time()
        began, _ = await self._submit(_TRIAL, launching + 3.0)
        started, each = began - launching, (time.time() - began) / _TRIAL
        await self._until(_TRIAL, _WITHIN)
        due = time.time() + 2.0 + 2.0 * started + min(each * crowd * 1.3, 40.0)
        began, _ = await self._submit(crowd, due)
        stored = round(crowd / (time.time() - began))
        await asyncio.sleep(max(0.0, due - time.time()))
        done = await self._until(crowd, _WITHIN)
        return [max(0.0, at - due) for at in done.values()], stored

    async def prepare(self) -> None:
        await self._run("prepare")

    async def _submit(self, count: int, at: float | None = None) -> tuple[float, float]:
        """When it had imported and connected and began, and the CPU seconds it took from then on."""
        before = os.times()
        first = self._submitted
        self._submitted += count
        said = await self._run("submit", str(count), str(first), *([] if at is None else [repr(at)]))
        after = os.times()
        began, until_then = map(float, said.split())
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        return began, max(0.0, spent - until_then)

    async def _run(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *self._launch, *arguments, env=self._env, cwd=PROGRAMS, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{self._peer.program} {' '.join(arguments)} ended with {process.returncode}")
        return said.decode()

    async def _until(self, count: int, within: float) -> dict[int, float]:
        """When the jobs submitted last ran first, by number."""
        first = self._submitted - count
        deadline = time.monotonic() + within
        while self._size() < self._submitted and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        found: dict[int, float] = {}
        if self._record.exists():
            for number, at in _RECORD.iter_unpack(self._record.read_bytes()[: self._size() * _RECORD.size]):
                if number >= first:
                    found.setdefault(number, at)
        return found

    def _size(self) -> int:
        return self._record.stat().st_size // _RECORD.size if self._record.exists() else 0


@asynccontextmanager
async def _at_work(
    name: str, peer: Peer, program: Path, server: servers.Server, directory: Path
) -> AsyncIterator[_Work]:
    record = directory / "record"
    env = {
        **os.environ,
        "BENCH_SERVER": server.url,
        "BENCH_RECORD": str(record),
        "PYTHONPATH": str(PROGRAMS),
        "PYTHONWARNINGS": "ignore",
        "NODE_PATH": str(CACHE / name / "node_modules"),
    }
    launch = [str(program), str(PROGRAMS / peer.program)]
    log = directory / "services.log"
    work = _Work(peer, launch, env, record, log)
    if peer.prepares:
        await work.prepare()
    with _services(peer, launch, env, log) as services:
        work.pids = {peer.server: [server.pid], "worker": services}
        yield work


@contextmanager
def _services(peer: Peer, launch: list[str], env: dict[str, str], log: Path) -> Iterator[list[int]]:
    running: list[subprocess.Popen[bytes]] = []
    with log.open("wb") as output:
        try:
            for service in peer.services:
                running.append(  # noqa: PERF401 — those started so far must be stopped if the next fails
                    subprocess.Popen(
                        [*launch, service],
                        env=env,
                        cwd=PROGRAMS,
                        stdout=output,
                        stderr=output,
                        process_group=0,
                    )
                )
            yield [process.pid for process in running]
        finally:
            for process in running:
                _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """The group it leads: some workers leave children behind."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5.0)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
