"""The last step of a rebuild: the new schema takes the name of the live one."""

import logging
import secrets
from collections.abc import Awaitable, Callable

import asyncpg

from waterclock.projector.write.database import SCHEMA, connect, statement

NEXT = f"{SCHEMA}_next"
_OLD = f"{SCHEMA}_old_"

_log = logging.getLogger(__name__)


class RebuildRefused(Exception):
    """It cannot be done now; the message says why. The live tables are as they were."""


async def switch_schemas(
    url: str, name: str, catch_up: Callable[[dict[tuple[str, int], int]], Awaitable[None]]
) -> None:
    """Hold the live projector, let `catch_up` bring the new tables to where it stands, and change names.

    The live positions are overwritten, not only locked: a transaction that waits for them finds that somebody
    else moved them, also if it goes on in the new tables.
    """
    live = await connect(url, name=name, patience=None)
    try:
        async with live.transaction():
            held = await live.fetch(statement("freeze_live"))
            await catch_up({(row["stream"], row["partition"]): row["position"] for row in held})
            await refuse_foreign_views(live)
            await live.execute(statement("carry_executors"))
            await live.execute(statement("carry_queues"))
            await live.execute(f"ALTER SCHEMA {SCHEMA} RENAME TO {_OLD}{secrets.token_hex(4)}")
            await live.execute(f"ALTER SCHEMA {NEXT} RENAME TO {SCHEMA}")
        await drop_leftover_schemas(live)
    finally:
        live.terminate()


async def refuse_foreign_views(connection: asyncpg.Connection) -> None:
    views = [row["name"] for row in await connection.fetch(statement("views_outside"))]
    if views:
        raise RebuildRefused(
            f"these views read the tables that would be replaced, and would be lost: {', '.join(views)}. "
            "Drop them, rebuild, and create them again."
        )


async def drop_leftover_schemas(connection: asyncpg.Connection) -> None:
    """Of this rebuild, and of ones that were interrupted. Waits for whoever still reads there, though not for long:
    what is left is dropped the next time."""
    for row in await connection.fetch(statement("leftovers"), NEXT, _OLD):
        try:
            async with connection.transaction():
                await connection.execute("SET LOCAL lock_timeout = '10s'")
                await connection.execute(f"DROP SCHEMA {row['name']} CASCADE")
        except asyncpg.LockNotAvailableError:
            _log.warning("schema is in use and stays for now", extra={"schema": row["name"]})
