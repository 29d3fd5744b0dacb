"""The connection that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waterclock.core.jetstream.connection import Connection
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.runtime.tls import nats_context


@asynccontextmanager
async def open_log(settings: Settings, *, name: str) -> AsyncIterator[Connection]:
    if settings.nats_url is None:
        raise SettingsError("nats_url", "a URL like nats://host:4222", "nothing", name)
    async with Connection.open(
        settings.nats_url,
        name=name,
        inbox_prefix=settings.nats_inbox,
        credentials=settings.nats_credentials,
        tls=nats_context(settings),
    ) as connection:
        yield connection
