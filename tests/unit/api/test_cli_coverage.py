"""The command line reaches every method of the table, and its reference says what it offers."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import waterclock.api.cli
from waterclock.api.cli.program import COMMANDS, program
from waterclock.api.cli.reference import PAGE, page
from waterclock.proto.methods import METHODS, Method

HOME = Path(waterclock.api.cli.__file__).parent
SHARED = "\n".join(file.read_text() for file in HOME.glob("*.py"))


def command_at(words: str) -> Any:
    found: Any = get_command(program)
    for word in words.split():
        found = found.get_command(None, word)
        assert found is not None, f"there is no command `{words}`"
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_has_a_command_that_calls_it(method: Method[Any, Any]) -> None:
    command = command_at(method.command)
    assert not hasattr(command, "list_commands") or command.invoke_without_command
    if command.callback.__module__ == "waterclock.api.cli.method_command":
        return
    module = COMMANDS[method.command.split()[0]]
    constant = method.name.replace(".", "_").upper()
    source = (HOME / "commands" / f"{module}.py").read_text() + SHARED
    assert re.search(rf"\bmethods\.{constant}\b", source), f"`{method.command}` does not call {method.name}"


def test_a_command_made_from_a_row_is_the_only_one_of_its_name() -> None:
    """Of two rows with the same words only the first would be reached."""
    made = [
        m.command for m in METHODS if command_at(m.command).callback.__module__.endswith(".method_command")
    ]
    assert made
    assert len(set(made)) == len(made)
    assert not [m.name for m in METHODS if m.streaming and m.command in made]


@pytest.mark.parametrize(
    "method", [m for m in METHODS if m.name.endswith(".list")], ids=lambda method: method.name
)
def test_every_listing_has_json(method: Method[Any, Any]) -> None:
    assert "--json" in [name for param in command_at(method.command).params for name in param.opts]


def test_the_reference_is_current() -> None:
    assert PAGE.read_text() == page(), "run `python -m waterclock.api.cli.reference`"
