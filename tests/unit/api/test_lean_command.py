"""A command imports what it needs to ask one question, and no more: it has 0.4 seconds for everything."""

import subprocess
import sys

import pytest

HEAVY = ("asyncio", "ssl", "nats", "rich", "yaml", "uvloop", "litestar", "aiohttp", "pydantic", "email")
PROGRAM = """
import sys
from waterclock.api.cli.program import run
assert run(sys.argv[2:]) == 4
found = [name for name in sys.argv[1].split(",") if name in sys.modules]
assert not found, f"a command imports {found}"
"""


@pytest.mark.parametrize(
    "words", [("jobs",), ("runs", "x"), ("status",), ("why", "x"), ("submit", "x", "--shell", "y")]
)
def test_a_command_is_light(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, ",".join(HEAVY), *words, "--data", "/nonexistent"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
