"""What people expect of a command: a version, a manual page, completion, no colours where none are wanted."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from waterclock.api.cli import manual, output
from waterclock.api.cli.program import COMMANDS


def waterclock(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "waterclock.api.cli", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_says_its_version() -> None:
    said = waterclock("--version")
    assert (said.returncode, said.stdout) == (0, f"waterclock {version('waterclock')}\n")


def test_the_manual_page_is_not_stale_and_has_every_command() -> None:
    text = manual.page()
    assert manual.PAGE.read_text() == text, "run `python -m waterclock.api.cli.manual`"
    for command in COMMANDS:
        assert f".SS waterclock {command.replace('-', chr(92) + '-')}" in text, command
    assert text.isascii()


def test_the_manual_page_is_roff() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is missing: the manual page was not set")
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(manual.PAGE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    words = {"COMP_WORDS": "waterclock jo", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "waterclock jo"}
    more = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_WATERCLOCK_COMPLETE": f"complete_{shell}"}
    said = waterclock(**words, **more)
    assert said.returncode == 0, said.stderr
    assert "jobs" in said.stdout
    assert "apply" not in said.stdout


def test_no_colours_where_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" in output.coloured("FAILED")
    for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert output.coloured("FAILED") == "FAILED"
            assert output.marked(True) == "✓"
            assert "\x1b" not in output.table(("A",), [("SUCCESS",)])
