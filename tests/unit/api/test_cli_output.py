"""Tables fit the terminal and never let a name control it."""

import os
import sys

import pytest

from waterclock.api.cli import output


def test_columns_line_up() -> None:
    text = output.table(("ID", "NAME"), [("a", "first"), ("bcd", "x")])
    assert text.splitlines() == ["ID   NAME", "a    first", "bcd  x"]


def test_a_wide_column_gives_way_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(output, "get_terminal_size", lambda: os.terminal_size((20, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    lines = output.table(("ID", "NAME"), [("short", "a very long name indeed")]).splitlines()
    assert max(map(len, lines)) <= 20
    assert lines[1].startswith("short  a very")
    assert lines[1].endswith("…")


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in output.table(("NAME",), [("\x1b[2Jgone\n",)])
