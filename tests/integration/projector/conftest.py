from collections.abc import AsyncIterator

import asyncpg
import pytest

from projector_rig.log import Log
from waterclock.projector.sql.migrator import migrate


@pytest.fixture
async def log(nats_url: str) -> AsyncIterator[Log]:
    async with Log.open(nats_url) as log:
        yield log


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection as a user would have it, with the schema in place."""
    connection = await asyncpg.connect(database_url)
    await migrate(connection, "waterclock")
    yield connection
    await connection.close()
