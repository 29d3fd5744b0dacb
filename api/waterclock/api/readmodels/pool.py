"""The connection to the read models. They may be away at any time: an outage of listings, not of the service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from waterclock.api.errors import Invalid

CONNECT_SECONDS = 2.0
QUERY_SECONDS = 10.0
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.UndefinedTableError,  # no projector has been here yet
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedColumnError,  # or one is just bringing the tables to its version
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)


class ReadModelsAway(Exception):
    pass


class Pool:
    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record] | None") -> None:
        self._pool = pool

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str | None, *, size: int = 8) -> AsyncIterator["Pool"]:
        """Connects when first used. Without a URL every query says that the read models are away."""
        if url is None:
            yield cls(None)
            return
        pool = asyncpg.create_pool(
            url,
            min_size=0,
            max_size=size,
            timeout=CONNECT_SECONDS,
            command_timeout=QUERY_SECONDS,
            server_settings={
                "application_name": "waterclock-api",
                "plan_cache_mode": "force_custom_plan",  # half of every filter is usually absent
                "timezone": "UTC",
            },
        )
        await pool
        try:
            yield cls(pool)
        finally:
            pool.terminate()

    async def fetch(self, query: str, *arguments: Any) -> "list[asyncpg.Record]":
        if self._pool is None:
            raise ReadModelsAway("no database is configured (WATERCLOCK_DATABASE_URL)")
        try:
            async with asyncio.timeout(CONNECT_SECONDS + QUERY_SECONDS), self._pool.acquire() as connection:
                return await connection.fetch(query, *arguments)
        except asyncpg.DataError as error:
            raise Invalid.field("", f"no value for a query: {error}") from error
        except _AWAY as error:
            raise ReadModelsAway(f"{type(error).__name__}: {error}") from error

    async def fetch_one(self, query: str, *arguments: Any) -> "asyncpg.Record | None":
        rows = await self.fetch(query, *arguments)
        return rows[0] if rows else None
