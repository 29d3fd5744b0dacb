"""The administrator's token is in a file for its owner, not in what the program prints, and can be replaced (F10)."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.program import Program, program
from support.waiting import wait_until


@pytest.fixture(scope="module")
def waterclock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with program(tmp_path_factory.mktemp("admin") / "data") as running:
        yield running


def status(waterclock: Program, token: str) -> int:
    answer = httpx.get(
        f"{waterclock.connection['http']}/v1/jobs", headers={"Authorization": f"Bearer {token}"}
    )
    return answer.status_code


def test_it_is_replaced_in_the_file_and_the_one_before_is_refused_also_after_a_restart(
    waterclock: Program,
) -> None:
    first = waterclock.connection["token"]
    tokens = [first]
    for _ in range(2):
        rotated = waterclock.cli("token", "rotate-admin")
        assert rotated.returncode == 0, rotated.stderr
        tokens.append(waterclock.connection["token"])
        assert tokens[-1] not in rotated.stdout + rotated.stderr
        assert [status(waterclock, token) for token in tokens] == [401] * (len(tokens) - 1) + [200]
    old = waterclock.kill("api")
    wait_until(lambda: waterclock.processes()["api"] not in ([], [old]), "another api")
    wait_until(lambda: status(waterclock, tokens[-1]) == 200, "the api to answer")
    assert [status(waterclock, token) for token in tokens] == [401, 401, 200]
    assert waterclock.connection["token"] == tokens[-1]  # `up` has not written the one that it began with
    assert waterclock.cli("jobs").returncode == 0
    rotated = waterclock.cli("token", "rotate-admin")  # the one it replaces is both: given, and made before
    assert rotated.returncode == 0, rotated.stderr
    assert status(waterclock, tokens[-1]) == 401
    assert waterclock.cli("jobs").returncode == 0


def test_where_a_variable_gives_it_that_is_said(waterclock: Program) -> None:
    environment = {**os.environ, "WATERCLOCK_DATA": str(waterclock.data), "WATERCLOCK_TOKEN": "x" * 20}
    command = [sys.executable, "-m", "waterclock.api.cli", "token", "rotate-admin"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == 2
    assert "WATERCLOCK_TOKEN" in told.stderr


@pytest.mark.parametrize("terminal", [False, True])
def test_only_a_terminal_is_shown_it(tmp_path: Path, terminal: bool) -> None:
    data = tmp_path / "data"
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "waterclock.api.cli", "up", "--port", "0"],
        env={**os.environ, "WATERCLOCK_DATA": str(data)},
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    os.close(theirs)
    said = b""
    try:
        while b"admin token" not in said or not said.endswith(b"\n"):
            said += os.read(ours, 4096)
        token = json.loads((data / "connection.json").read_text())["token"]
        assert (token.encode() in said) == terminal
        assert (data / "connection.json").stat().st_mode & 0o777 == 0o600
    finally:
        process.terminate()
        assert process.wait(60) == 0
        os.close(ours)
