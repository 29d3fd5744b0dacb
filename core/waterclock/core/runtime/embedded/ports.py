"""Loopback ports for embedded servers: free ones, and the same ones again after a restart."""

import random
import socket
from pathlib import Path

from waterclock.core.runtime.data_directory import write_private

LOOPBACK = "127.0.0.1"

_BELOW_EPHEMERAL = range(20_000, 32_000)
"""The kernel never hands these to a client. A client that keeps dialling a dead server on an ephemeral port
is one day given that very port, connects to itself, and keeps the server from coming back."""


def is_free(port: int, host: str = LOOPBACK) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    for port in random.sample(_BELOW_EPHEMERAL, 200):
        if is_free(port):
            return port
    raise OSError(f"no free port on {LOOPBACK} in {_BELOW_EPHEMERAL}")


def kept_port(file: Path) -> int:
    """The port remembered in `file` while it is free, else a new one, remembered."""
    try:
        port = int(file.read_text())
    except (OSError, ValueError):
        port = 0
    if not port or not is_free(port):
        port = free_port()
        write_private(file, str(port))
    return port
