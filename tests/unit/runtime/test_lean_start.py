"""A component starts without the weight of a WebSocket client."""

import subprocess
import sys

PROGRAM = """
import sys
from waterclock.core.runtime.nats_without_aiohttp import import_nats_without_aiohttp
import_nats_without_aiohttp()
import nats
assert not [name for name in sys.modules if name.startswith("aiohttp")], "loaded after all"
import aiohttp
assert aiohttp.ClientSession
"""


def test_nats_comes_without_aiohttp_which_stays_importable() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
