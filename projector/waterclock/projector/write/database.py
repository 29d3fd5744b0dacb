"""Postgres as the projector uses it: connections with its values (instants as microseconds, JSON as bytes), and the
named statements of `sql/queries.sql`."""

from functools import cache
from pathlib import Path

import asyncpg

from waterclock.core.sql import load_statements

SCHEMA = "waterclock"

_QUERIES = Path(__file__).parent.parent / "sql" / "queries.sql"

_POSTGRES_EPOCH = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970: Postgres counts from there."""

_JSONB_VERSION = b"\x01"

TRANSIENT = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresIOError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.ObjectNotInPrerequisiteStateError,
)
"""What passes: Postgres is away, restarts, fails over, is full or busy. Anything else is a mistake of ours."""


async def connect(
    url: str, *, name: str, schema: str = SCHEMA, patience: float | None = 120.0
) -> asyncpg.Connection:
    """`patience`: seconds after which a statement is given up, for a Postgres that takes them and never answers."""
    connection: asyncpg.Connection = await asyncpg.connect(
        url,
        timeout=10,
        command_timeout=patience,
        server_settings={
            "application_name": name,
            "search_path": schema,
            # A crash may take the last commits: rows and positions go together, and the log has them still.
            "synchronous_commit": "off",
            "jit": "off",
            "timezone": "UTC",
        },
    )
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        format="tuple",
        encoder=lambda instant: (instant - _POSTGRES_EPOCH,),
        decoder=lambda value: value[0] + _POSTGRES_EPOCH,
    )
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=_JSONB_VERSION.__add__,
        decoder=lambda value: bytes(value[1:]),
    )
    return connection


def statement(name: str) -> str:
    return _statements()[name]


@cache
def _statements() -> dict[str, str]:
    return load_statements(_QUERIES)
