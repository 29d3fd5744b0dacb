"""The store that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.embedded import EmbeddedStore
from waterclock.core.store.store import Store


@asynccontextmanager
async def open_store(
    settings: Settings, connection: Connection, publisher: Publisher, kind: str
) -> AsyncIterator[Store]:
    """`kind` is `names.ARTIFACTS` or `names.LOGS`."""
    if settings.store is None:
        yield EmbeddedStore(connection, publisher, kind)
        return
    from waterclock.core.store.s3 import S3Store  # takes half a second to import

    async with S3Store.open(settings.store, kind, endpoint=settings.s3_endpoint, ca=settings.s3_ca) as store:
        yield store
