"""A component as a process: ready, signals, drain, exit codes, metrics."""

import asyncio
import os
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from waterclock.core.runtime.metrics import serving_metrics
from waterclock.core.runtime.ports import reserved_port
from waterclock.core.runtime.processes.process import Process, spawn

MAIN = """
import asyncio, sys
from pathlib import Path
from waterclock.core.runtime.lifecycle import ready, run_service
from waterclock.core.runtime.settings import load

async def drains(settings, stop):
    ready()
    await stop.wait()
    Path(sys.argv[2]).write_text("drained")

async def hangs(settings, stop):
    ready()
    try:
        await asyncio.Event().wait()
    finally:
        Path(sys.argv[2]).write_text("cancelled")

async def breaks(settings, stop):
    raise RuntimeError("broken")

sys.exit(run_service("dummy", globals()[sys.argv[1]], load({"grace_seconds": 60})))
"""


async def started(kind: str, note: Path, **env: str) -> Process:
    reader, writer = os.pipe()
    environment = {**os.environ, **env, "WATERCLOCK_READY_FD": str(writer)}
    process = spawn([sys.executable, "-c", MAIN, kind, str(note)], env=environment, pass_fds=[writer])
    os.close(writer)
    assert await asyncio.to_thread(os.read, reader, 1) == b"1"
    os.close(reader)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_exits_0(tmp_path: Path, number: signal.Signals) -> None:
    process = await started("drains", tmp_path / "note")
    process.send(number)
    assert await process.wait() == 0
    assert (tmp_path / "note").read_text() == "drained"


async def test_a_second_signal_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = await started("hangs", tmp_path / "note")
    process.send(signal.SIGTERM)
    # Two equal signals at once may arrive as one.
    process.send(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert (tmp_path / "note").read_text() == "cancelled"
    assert not log.exists()


async def test_one_that_breaks_exits_1_and_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = spawn([sys.executable, "-c", MAIN, "breaks", str(tmp_path / "note")], log=log)
    assert await process.wait() == 1
    assert "RuntimeError: broken" in log.read_text()


async def test_metrics_are_served_where_asked(tmp_path: Path) -> None:
    with reserved_port() as port:
        process = await started("drains", tmp_path / "note", WATERCLOCK_METRICS_PORT=str(port))
    text = await asyncio.to_thread(_get, f"http://127.0.0.1:{port}/metrics")
    assert "process_cpu_seconds_total" in text
    process.send(signal.SIGTERM)
    assert await process.wait() == 0


async def test_the_metrics_endpoint_knows_nothing_else_and_shrugs_off_garbage() -> None:
    async with serving_metrics("127.0.0.1", 0) as port:
        for request, answer in [
            (b"GET /x HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
            (b"\r\n\r\n", b"HTTP/1.1 404"),
        ]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            assert (await reader.read()).startswith(answer)
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x" * 100_000)
        writer.write_eof()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        assert "ok" in await asyncio.to_thread(_get, f"http://127.0.0.1:{port}/healthz")


def _get(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as response:
        return str(response.read().decode())
