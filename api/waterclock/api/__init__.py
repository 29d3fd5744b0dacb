"""The faces of waterclock: REST, the NATS service, the command line, and the Python client.

`from waterclock.api import Client` loads only what the client needs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.api.client.client import Client
    from waterclock.api.client.sync import SyncClient

__all__ = ["Client", "SyncClient"]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from waterclock.api.client.client import Client

        return Client
    if name == "SyncClient":
        from waterclock.api.client.sync import SyncClient

        return SyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
