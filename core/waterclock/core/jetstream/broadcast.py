"""Saying something to whoever listens now."""

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.protocol import publish_command


class Broadcast:
    """Plain messages, not kept: nobody hears them later, and none is sent while the server is away."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(self, subject: str, data: bytes) -> None:
        self._connection.nc.send_soon(publish_command(subject, "", None, data))
