"""The store that the settings name."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.jetstream_store import JetStreamStore
from waterclock.core.store.store import Store
from waterclock.proto import names

if TYPE_CHECKING:
    from waterclock.core.store.s3 import S3Store


@asynccontextmanager
async def open_store(
    settings: Settings, connection: Connection, publisher: Publisher, kind: str
) -> AsyncIterator[Store]:
    """`kind` is `names.ARTIFACTS` or `names.LOGS`."""
    if settings.store is None:
        yield JetStreamStore(connection, publisher, kind)
        return
    async with _s3(settings, settings.store, kind) as store:
        yield store


async def ensure_bucket(settings: Settings) -> None:
    """Make the bucket that the settings name, if they name one and it is not there."""
    if settings.store is not None:
        async with _s3(settings, settings.store, names.ARTIFACTS) as store:
            await store.ensure_bucket()


def _s3(settings: Settings, url: str, kind: str) -> AbstractAsyncContextManager["S3Store"]:
    from waterclock.core.store.s3 import S3Store  # takes half a second to import

    return S3Store.open(url, kind, endpoint=settings.s3_endpoint, ca=settings.s3_ca)
