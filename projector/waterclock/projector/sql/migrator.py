"""Brings a schema to the newest version: numbered SQL files, each run once, in order, in a transaction of its own.

The files name no schema. They run with `search_path` on the one they are to build, so that a rebuild makes the same
tables beside the live ones.
"""

import hashlib
import logging
from importlib.resources import files

import asyncpg
from msgspec import Struct

_LOCK = 0x77617465_72636C6B
"""Advisory lock of whoever migrates: projectors that start together take turns."""

_log = logging.getLogger(__name__)


class Migration(Struct, frozen=True, kw_only=True):
    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


class SchemaTooNew(Exception):
    """The schema was made by a later version of waterclock than this one."""


def migrations() -> list[Migration]:
    found = []
    for file in files("waterclock.projector").joinpath("sql/migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(number=int(number), name=name, sql=file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


async def migrate(connection: asyncpg.Connection, schema: str) -> int:
    """Run what has not been run; answers how many that were.

    All in one transaction: whoever reads sees the tables of before or of after, and those who read while tables are
    made for the first time cannot get into each other's way with us.
    """
    known = migrations()
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
    try:
        applied = await _applied(connection, schema)
        if applied and max(applied) > known[-1].number:
            raise SchemaTooNew(
                f"schema {schema} is at version {max(applied)}, this program knows {known[-1].number}: "
                "run a version of waterclock that is at least as new as the one that wrote it"
            )
        due = [migration for migration in known if migration.number not in applied]
        async with connection.transaction():
            await connection.execute(f"SET LOCAL search_path TO {schema}")
            for migration in due:
                await _run(connection, migration)
        for migration in due:
            _log.info(
                "migrated", extra={"schema": schema, "number": migration.number, "migration": migration.name}
            )
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
    return len(due)


async def _applied(connection: asyncpg.Connection, schema: str) -> set[int]:
    async with connection.transaction():
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await connection.execute(
            f"""
            CREATE TABLE IF NOT EXISTS {schema}.migrations (
                number integer PRIMARY KEY, name text NOT NULL, digest text NOT NULL, applied_at timestamptz NOT NULL);
            COMMENT ON TABLE {schema}.migrations IS 'Which changes of this schema have been made.';
            COMMENT ON COLUMN {schema}.migrations.number IS 'The order they are made in.';
            COMMENT ON COLUMN {schema}.migrations.name IS 'What the change is about.';
            COMMENT ON COLUMN {schema}.migrations.digest IS 'SHA-256 of the SQL that was run.';
            COMMENT ON COLUMN {schema}.migrations.applied_at IS 'When it was run.';
            """
        )
    return {row["number"] for row in await connection.fetch(f"SELECT number FROM {schema}.migrations")}


async def _run(connection: asyncpg.Connection, migration: Migration) -> None:
    await connection.execute(migration.sql)
    await connection.execute(
        "INSERT INTO migrations VALUES ($1, $2, $3, now())",
        migration.number,
        migration.name,
        migration.digest,
    )
