"""An executor and its warden killed at one stroke: what their jobs were doing ends when the next executor starts."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from executor_rig.fake_owner import FakeOwner
from executor_rig.process import executor_process
from support.waiting import eventually, is_alive
from waterclock.core.runtime.settings import Settings
from waterclock.executor.warden.process_tree import MARKER_VARIABLE
from waterclock.proto.spec import Shell
from waterclock.proto.work import ClaimReply

_LINEAGE = "from waterclock.executor.warden import process_tree"


def _warden_of(executor: int) -> int:
    [warden] = [
        int(pid)
        for task in Path(f"/proc/{executor}/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]
    return warden


def _written(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def _rooms_of(executor: int) -> list[Path]:
    """Where it keeps the directories of its jobs."""
    return [*Path(tempfile.gettempdir()).glob(f"waterclock-*.{executor}.*")]


async def test_nothing_of_their_jobs_outlives_the_next_start(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    owner.verdict = lambda _: ClaimReply(verdict="drop")
    pids = tmp_path / "pids"
    inner = f"echo $$ >> {pids}; (setsid sleep 300 & echo $! >> {pids}); sleep 300"
    async with executor_process(settings) as executor:
        await owner.submit(Shell(command=f"setsid sh -c '{inner}' & echo $$ >> {pids}; sleep 300"))
        await eventually(lambda: len(_written(pids)) == 3, "a job, its child and its grandchild")
        job = _written(pids)
        os.kill(_warden_of(executor.pid), signal.SIGKILL)
        os.kill(executor.pid, signal.SIGKILL)
        await executor.ended()
        rooms = _rooms_of(executor.pid)
        assert all(is_alive(pid) for pid in job), "nobody was left to end them"
        assert len(rooms) == 1
    async with executor_process(settings):
        assert not any(is_alive(pid) for pid in job)
        assert not rooms[0].exists()


def test_an_executor_that_a_forsaken_job_has_started_lives_on() -> None:
    gone = subprocess.run(
        [sys.executable, "-c", f"{_LINEAGE}; print(process_tree.incarnation())"],
        capture_output=True,
        check=True,
    )
    ended = subprocess.run(
        [sys.executable, "-c", f"{_LINEAGE}, abandoned; abandoned.kill_abandoned(); print(1)"],
        env={**os.environ, MARKER_VARIABLE: f"{gone.stdout.decode().strip()}.1"},
        capture_output=True,
        start_new_session=True,
    )
    assert (ended.returncode, ended.stdout) == (0, b"1\n"), "it spared itself"


async def test_jobs_of_others_are_not_touched(owner: FakeOwner, settings: Settings, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    environ = {"PATH": os.defpath, MARKER_VARIABLE: "17.4.42.1"}
    elsewhere = await asyncio.create_subprocess_exec("sleep", "300", env=environ)
    try:
        async with executor_process(settings):
            await owner.submit(Shell(command=f"echo $$ >> {pids}; sleep 300"))
            await eventually(lambda: len(_written(pids)) == 1, "a job")
            async with executor_process(settings):
                assert is_alive(*_written(pids)), "its warden lives"
                assert is_alive(elsewhere.pid), "its warden is in another namespace, where we cannot look"
    finally:
        elsewhere.kill()
        await elsewhere.wait()
