"""Importing the adapter stays cheap: a command line pays for it at every start."""

import subprocess
import sys

PROGRAM = """
import sys
import waterclock.core.jetstream.connection
import waterclock.core.jetstream.publisher
assert "nats" in sys.modules
assert "aiohttp" not in sys.modules, "nats-py has dragged aiohttp in"
import aiohttp
"""


def test_aiohttp_is_not_imported_on_the_way_and_can_be_imported_later() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
