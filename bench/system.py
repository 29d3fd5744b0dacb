"""A whole waterclock, started as a user starts it, and watched from outside."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from bench import accounting
from bench.history import History
from waterclock.api import Client

ROOT = Path(__file__).parent.parent
_READY_WITHIN = 60.0
_STOPPED_WITHIN = 60.0


class System:
    def __init__(self, data: Path, up: subprocess.Popen[bytes], clock: Client, history: History) -> None:
        self.data = data
        self.clock = clock
        self.history = history
        self._up = up

    @property
    def connection(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.data / "connection.json").read_text())
        return found

    @property
    def processes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = json.loads((self.data / "processes.json").read_text())
        return found

    def account(self) -> accounting.Account:
        return accounting.take(self.processes)

    def memory_mb(self, component: str) -> float:
        """Of the largest process of its kind."""
        return round(max(map(accounting.resident_mb, self.processes[component]), default=0.0), 1)


@asynccontextmanager
async def running_system(*flags: str, **environment: str) -> AsyncIterator[System]:
    """`waterclock up` on an empty directory, with the no-op worker; gone when the context ends."""
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory:
        data = Path(directory) / "data"
        up = start(data, *flags, "--worker", "bench.worker:worker", **environment)
        try:
            connection = json.loads((data / "connection.json").read_text())
            database = await asyncpg.connect(connection["database"])
            try:
                async with Client.connect(data=data, timeout=60.0, patience=120.0, environ={}) as clock:
                    yield System(data, up, clock, History(database))
            finally:
                await database.close()
        finally:
            await asyncio.to_thread(stop, up)


def start(data: Path, *flags: str, **environment: str) -> subprocess.Popen[bytes]:
    """Returns when it says that it is ready."""
    data.mkdir(parents=True, exist_ok=True)
    with (data.parent / f"{data.name}.log").open("ab") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "waterclock.api.cli", "up", "--data", str(data), "--port", "0", *flags],
            cwd=ROOT,
            env={**os.environ, "WATERCLOCK_LOG_LEVEL": "warning", **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            process_group=0,
        )
    assert up.stdout is not None
    os.set_blocking(up.stdout.fileno(), False)
    deadline = time.monotonic() + _READY_WITHIN
    said = b""
    while b"ready: " not in said:
        said += up.stdout.read() or b""
        if up.poll() is not None or time.monotonic() > deadline:
            if up.poll() is None:
                stop(up)
            raise RuntimeError(f"waterclock up did not get ready: {log_of(data)[-2000:]}")
        time.sleep(0.005)
    return up


def log_of(data: Path) -> str:
    return (data.parent / f"{data.name}.log").read_text(errors="replace")


def stop(up: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does; a second one when the first takes too long."""
    for _ in range(2):
        up.send_signal(signal.SIGINT)
        try:
            up.wait(_STOPPED_WITHIN)
            return
        except subprocess.TimeoutExpired:
            continue
    up.kill()
    up.wait()
