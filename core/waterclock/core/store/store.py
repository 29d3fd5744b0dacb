"""Where bytes are kept that are too large or too many for the log: artifacts, and the output of runs.

How the output of a run is named in the store, and to people.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct


def log_name(run_id: str, attempt: int) -> str:
    return f"{run_id}/{attempt}"


def log_url(run_id: str) -> str:
    return f"/v1/runs/{run_id}/log"


CHUNK = 128 * 1024


class StoreError(Exception):
    """The store is away, or refuses."""


class Missing(StoreError):
    """No object of that name."""


class Stored(Struct, frozen=True, kw_only=True):
    name: str
    size: int


class Store(Protocol):
    """Objects by name. A name is any text; an object is replaced whole or not at all."""

    async def put(self, name: str, content: AsyncIterator[bytes]) -> int:
        """Keep the content under this name and return its size. If `content` fails, nothing is kept."""

    def get(self, name: str, start: int = 0) -> AsyncIterator[bytes]:
        """The content from a byte on, in pieces; what is before it is not read. Raises Missing at the first one, and
        StoreError if the whole was asked for and is damaged."""

    async def size(self, name: str) -> int | None:
        """None if there is no such object."""

    async def delete(self, name: str) -> None:
        """Harmless if there is no such object."""

    async def check(self) -> None:
        """Raises StoreError if nothing can be kept or read."""

    def list(self, prefix: str = "") -> AsyncIterator[Stored]:
        """Every object whose name starts so."""


async def one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content
