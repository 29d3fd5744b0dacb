"""A clean slate for each test on a server that several share."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import nats

from support.waiting import eventually


async def delete_streams(url: str) -> None:
    client = await nats.connect(url)
    try:
        while names := json.loads((await client.request("$JS.API.STREAM.NAMES")).data)["streams"]:
            for name in names:
                await client.request(f"$JS.API.STREAM.DELETE.{name}")
    finally:
        await client.close()


@asynccontextmanager
async def fresh_database(server_url: str) -> AsyncIterator[str]:
    name = f"test_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        try:
            await eventually(
                lambda: _drop(connection, name),
                f"{name} to be dropped",
                through=(asyncpg.InsufficientPrivilegeError,),
            )
        finally:
            await connection.close()


async def _drop(connection: asyncpg.Connection, name: str) -> bool:
    """An owner that is no superuser cannot end the server's own work on a database, such as a vacuum."""
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    return True
