"""The lines of the README do what they say, as they stand."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.program import Program, program

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
SHELL = [text for kind, text in BLOCKS if kind == "sh"]
PYTHON = [text for kind, text in BLOCKS if kind == "python"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """What `make run` starts, with its data where every command looks for them: in `.waterclock` of the directory."""
    with program(tmp_path_factory.mktemp("readme") / ".waterclock", "--demo") as running:
        yield running


def run(here: Program, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WATERCLOCK_")}
    return subprocess.run(
        command,
        cwd=here.data.parent,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_the_command_lines_work_as_they_stand(here: Program) -> None:
    (block,) = [text for text in SHELL if "waterclock submit hello" in text]
    lines = [line for line in block.splitlines() if line.startswith("waterclock")]
    assert len(lines) >= 5
    for line in lines:
        ended = run(here, "bash", "-c", line)
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"
        if "--wait -- echo hi" in line:
            assert ended.stdout == "hi\n"


def test_the_request_works_as_it_stands(here: Program) -> None:
    (block,) = [text for text in SHELL if "curl" in text]
    ended = run(here, "bash", "-c", block.replace("http://127.0.0.1:8080", here.connection["http"]))
    assert '"job_id":"backup"' in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize("block", PYTHON)
def test_the_python_works_as_it_stands(here: Program, block: str) -> None:
    ended = run(here, sys.executable, "-c", block)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()
