"""Connections to the read models. Postgres may be away at any time: an outage of listings, not of the service."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from waterclock.api.errors import Invalid

CONNECT_SECONDS = 2.0
QUERY_SECONDS = 10.0
ROW_SECONDS = 2.0
"""For one row by its key. Whoever asks can often do without it, and is not to wait for a server that hangs."""
SEARCH_SECONDS = 5.0
"""For what looks through many rows. Postgres itself ends it then, so that nothing goes on that nobody waits for."""
_SEARCHES = 3
"""Of all connections, as many as searches may have: those who ask for one row do not wait for them."""
_SEARCH_SETTINGS = f"SET LOCAL statement_timeout = {int(SEARCH_SECONDS * 1000)}; SET LOCAL jit = off"
_BACK_OFF_SECONDS = 1.0
"""How long a server that was too slow for a row is not asked for another."""
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
    asyncpg.DeadlockDetectedError,  # it wants what we hold and we what it holds: Postgres refused us
)


_NO_DATABASE = "no database is configured (WATERCLOCK_DATABASE_URL)"


class ReadModelsAway(Exception):
    """Postgres cannot be reached, is too slow, or has no tables of this version yet."""


class Pool:
    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record] | None") -> None:
        self._pool = pool
        self._back_off_until = 0.0
        self._searches = asyncio.Semaphore(_SEARCHES)

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
        try:
            return await self._answer(query, arguments, QUERY_SECONDS)
        except _AWAY as error:
            raise ReadModelsAway(f"{type(error).__name__}: {error}") from error

    async def fetch_one(self, query: str, *arguments: Any) -> "asyncpg.Record | None":
        if time.monotonic() < self._back_off_until:
            raise ReadModelsAway("they did not answer a moment ago")
        try:
            rows = await self._answer(query, arguments, ROW_SECONDS)
        except _AWAY as error:
            if isinstance(error, TimeoutError):
                self._back_off_until = time.monotonic() + _BACK_OFF_SECONDS
            raise ReadModelsAway(f"{type(error).__name__}: {error}") from error
        return rows[0] if rows else None

    async def search(self, query: str, *arguments: Any) -> "list[asyncpg.Record]":
        """What may take long, and is refused if it does: whoever asked can ask for less."""
        async with self._searching() as connection:
            found: list[asyncpg.Record] = await connection.fetch(query, *arguments, timeout=QUERY_SECONDS)
            return found

    async def search_all(
        self, query: str, *arguments: Any, rows: int = 1000
    ) -> "AsyncGenerator[list[asyncpg.Record], None]":
        """Every row, so many at a time, of a search that finds more than should be in memory at once."""
        async with self._searching() as connection:
            cursor = await connection.cursor(query, *arguments, timeout=QUERY_SECONDS)
            while found := await cursor.fetch(rows, timeout=QUERY_SECONDS):
                yield found

    @asynccontextmanager
    async def _searching(self) -> "AsyncIterator[Any]":
        if self._pool is None:
            raise ReadModelsAway(_NO_DATABASE)
        try:
            async with self._searches, self._pool.acquire(timeout=CONNECT_SECONDS) as connection:
                try:
                    async with connection.transaction(readonly=True):
                        await connection.execute(_SEARCH_SETTINGS)
                        yield connection
                except TimeoutError:
                    connection.terminate()
                    raise
        except asyncpg.QueryCanceledError:
            raise Invalid.field(
                "from",
                f"this took longer than {SEARCH_SECONDS:.0f} s and was ended;"
                " ask for less: a shorter time, a job, or another status",
            ) from None
        except asyncpg.DataError as error:
            raise Invalid.field("", f"no value for a query: {error}") from error
        except _AWAY as error:
            raise ReadModelsAway(f"{type(error).__name__}: {error}") from error

    async def _answer(self, query: str, arguments: Sequence[Any], seconds: float) -> "list[asyncpg.Record]":
        if self._pool is None:
            raise ReadModelsAway(_NO_DATABASE)
        async with asyncio.timeout(CONNECT_SECONDS + seconds), self._pool.acquire() as connection:
            try:
                return await connection.fetch(query, *arguments, timeout=seconds)
            except TimeoutError:
                connection.terminate()  # to give it back would be to wait until it has cancelled the query
                raise
            except asyncpg.DataError as error:
                raise Invalid.field("", f"no value for a query: {error}") from error
