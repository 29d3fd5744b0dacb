"""The client has every method of the table, with parameters that a type checker knows."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from waterclock.api import Client, SyncClient
from waterclock.api.client.generate import generated
from waterclock.proto.methods import METHODS, Method

RIGHT = """
from datetime import datetime
from typing import Any

from waterclock.api import Client, SyncClient
from waterclock.proto.answers import Job, JobAccepted


async def right(clock: Client, definition: dict[str, Any]) -> JobAccepted:
    await clock.workflows.create(**definition)
    job = await clock.jobs.create(name="x", cron="0 3 * * *", command=["true"], retry={"factor": 2})
    await clock.jobs.update(job.job_id, priority=3, timeout=None)
    await clock.jobs.backfill(job.job_id, datetime.now(), datetime.now(), dry_run=True)
    await clock.dead_letters.redrive("a@1", "b@2", job_id=job.job_id)
    async for found in clock.jobs.all(status="PAUSED"):
        print(found.name)
    return job


def right_without_await(clock: SyncClient) -> Job:
    for change in clock.runs.watch("x"):
        print(change.status)
    return clock.jobs.get(clock.jobs.create(name="x", command="true").job_id)
"""
WRONG = {
    'await clock.jobs.create(nmae="x")': 'Argument "nmae" to "create" of "JobsCalls" has incompatible type',
    'await clock.jobs.create(name="x", tier="huge")': "incompatible type",
    'await clock.jobs.list(state="PAUSED")': 'Unexpected keyword argument "state"',
    "await clock.runs.get()": "Missing positional argument",
    '(await clock.jobs.get("x")).jobid': 'has no attribute "jobid"',
    'sync.jobs.create(nmae="x")': 'Argument "nmae" to "create" of "JobsCalls" has incompatible type',
    'sync.jobs.get("x").jobid': 'has no attribute "jobid"',
}


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_what_is_generated_is_current(path: Path) -> None:
    assert path.read_text() == generated()[path], "run `python -m waterclock.api.client.generate`"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_is_a_call_of_both_clients(method: Method[Any, Any]) -> None:
    noun, verb = method.name.split(".")
    there = getattr(getattr(Client(_wire()), noun), verb)
    here = getattr(getattr(SyncClient(_wire()), noun), verb)
    assert inspect.iscoroutinefunction(there) or inspect.isasyncgenfunction(there)
    assert not inspect.iscoroutinefunction(here)
    assert list(inspect.signature(there).parameters) == list(inspect.signature(here).parameters)


def test_both_clients_have_the_same_methods() -> None:
    there, here = Client(_wire()), SyncClient(_wire())
    for noun in vars(there).keys() - {"wire"}:
        assert _public(getattr(there, noun)) == _public(getattr(here, noun)), noun


def test_a_type_checker_finds_what_is_misspelled(tmp_path: Path) -> None:
    """As a user's project sees it: mypy outside the repository, with waterclock installed."""
    (tmp_path / "right.py").write_text(RIGHT)
    lines = [f"    {line}" for line in WRONG]
    head = (
        "from waterclock.api import Client, SyncClient",
        "async def wrong(clock: Client, sync: SyncClient) -> None:",
    )
    (tmp_path / "wrong.py").write_text("\n".join((*head, *lines)) + "\n")
    command = (
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-pretty",
        "--cache-dir",
        ".cache",
        "right.py",
        "wrong.py",
    )
    found = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    errors = [line for line in found if ": error: " in line]
    assert len(errors) == len(WRONG), found
    for number, (error, expected) in enumerate(zip(errors, WRONG.values(), strict=True), len(head) + 1):
        assert error.startswith(f"wrong.py:{number}: ")
        assert expected in error


def _wire() -> Any:
    """Nothing is called."""
    return object()


def _public(noun: Any) -> set[str]:
    return {name for name in dir(noun) if not name.startswith("_")}
