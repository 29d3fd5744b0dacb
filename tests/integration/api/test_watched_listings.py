"""Listings that stay: what has changed is told, until Ctrl-C or until nobody reads any more."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

LISTINGS = (
    ("jobs",),
    ("executors",),
    ("queues",),
    ("partitions",),
    ("dead",),
    ("workflow", "list"),
    ("token", "list"),
    ("namespace", "list"),
    ("artifact", "list"),
)


@asynccontextmanager
async def watching(
    data: Path, *words: str, stdout: int = asyncio.subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "waterclock.api.cli", *words, "--watch", "--data", str(data)),
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(40):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout is not None
    text = await process.stdout.readline()
    return json.loads(text) if text.startswith(b"{") else text.decode()


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, bytes]:
    assert process.stderr is not None
    said = await process.stderr.read()
    return await process.wait(), said


async def test_json_is_a_line_for_each_change(house: Served, data: Path) -> None:
    created: dict[str, Any] = {
        "name": "seen",
        "command": "true",
        "cron": "@yearly",
        "labels": {"of": "watch"},
    }
    first = await house.client.jobs.create(**created)
    async with watching(data, "jobs", "--label", "of=watch", "--json") as process:
        assert (await line(process))["item"]["job_id"] == first.job_id
        second = await house.client.jobs.create(**created)
        added = await line(process)
        assert (added["change"], added["item"]["job_id"]) == ("added", second.job_id)
        await house.client.jobs.pause(first.job_id)
        changed = await line(process)
        assert (changed["change"], changed["item"]["job_id"]) == ("changed", first.job_id)
        assert changed["item"]["status"] == "PAUSED"
        process.send_signal(signal.SIGINT)
        assert await ended(process) == (0, b"")


async def test_what_leaves_the_listing_is_told(house: Served, data: Path) -> None:
    created: dict[str, Any] = {
        "name": "leaves",
        "command": "true",
        "cron": "@yearly",
        "labels": {"of": "leaving"},
    }
    job = await house.client.jobs.create(**created)
    words = ("jobs", "--label", "of=leaving", "--status", "scheduled", "--json")
    async with watching(data, *words) as process:
        assert (await line(process))["change"] == "added"
        await house.client.jobs.cancel(job.job_id)
        removed = await line(process)
        assert (removed["change"], removed["item"]["job_id"]) == ("removed", job.job_id)


async def test_a_pipe_gets_the_rows_that_changed(house: Served, data: Path) -> None:
    created: dict[str, Any] = {"name": "row", "command": "true", "cron": "@yearly", "labels": {"of": "rows"}}
    first = await house.client.jobs.create(**created)
    async with watching(data, "jobs", "--label", "of=rows") as process:
        assert (await line(process)).startswith("ID ")
        assert (await line(process)).startswith(first.job_id)
        second = await house.client.jobs.create(**created)
        assert (await line(process)).startswith(second.job_id)


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
async def test_it_ends_when_nobody_reads_any_more(data: Path, words: tuple[str, ...]) -> None:
    """At once, whether anything changes or not."""
    reader, writer = os.pipe()
    async with watching(data, *words, stdout=writer) as process:
        os.close(writer)
        assert await asyncio.to_thread(os.read, reader, 1)
        os.close(reader)
        assert await ended(process) == (0, b"")


async def test_a_terminal_shows_how_things_are(house: Served, data: Path) -> None:
    ours, theirs = pty.openpty()
    async with watching(data, "executors", stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"EXECUTOR") < 2:
            shown += await asyncio.to_thread(os.read, ours, 4096)
        assert shown.count(b"\x1b[2J") >= 2
        process.send_signal(signal.SIGINT)
        assert await ended(process) == (0, b"")
    os.close(ours)
