"""nats-py is imported without aiohttp, which a command line would pay for at every start."""

import subprocess
import sys

import pytest

BEFORE_NATS = """
import sys
from waterclock.core.runtime.nats_without_aiohttp import import_nats_without_aiohttp
import_nats_without_aiohttp()
import nats
"""
THROUGH_THE_ADAPTER = """
import sys
import waterclock.core.jetstream.connection
import waterclock.core.jetstream.publisher
"""
AFTERWARDS = """
assert "nats" in sys.modules
assert not [name for name in sys.modules if name.startswith("aiohttp")], "nats-py has imported aiohttp"
import aiohttp
assert aiohttp.ClientSession
"""


@pytest.mark.parametrize("program", [BEFORE_NATS, THROUGH_THE_ADAPTER])
def test_aiohttp_is_not_imported_on_the_way_and_can_be_imported_later(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program + AFTERWARDS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
