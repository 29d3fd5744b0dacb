"""Who may do what in the embedded Postgres (M9): the owner is no superuser, a reader reads, and a cluster of the
version before, whose owner was one, becomes so when it is started."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from servers.server import Server
from waterclock.core.runtime.data_directory import private_directory, write_private
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.postgres_roles import LAYOUT
from waterclock.core.runtime.processes.identity import hand_over, unprivileged
from waterclock.projector.sql.migrator import migrate

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def session(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def embedded(directory: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(directory / "postgres", log=directory / "postgres.log")


def make_by_hand(directory: Path, superuser: str) -> None:
    """A cluster with a superuser whose password is in the file. In the version before it was called waterclock."""
    postgres = embedded(directory)
    home = private_directory(directory / "postgres")
    write_private(home / "password", "the-password-of-before")
    growing = private_directory(home / "data.new")
    hand_over(growing, unprivileged())
    password_file = directory / "initdb.password"
    write_private(password_file, "the-password-of-before")
    hand_over(password_file, unprivileged())
    postgres._run(
        *("initdb", "-D", str(growing), "-U", superuser, "--pwfile", str(password_file)),
        *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
    )
    postgres._single_user(growing, "postgres", ["CREATE DATABASE waterclock"], "-F")
    growing.rename(home / "data")
    write_private(home / "roles", LAYOUT)  # so that it is not changed yet


@pytest.fixture(scope="module", params=["new", "upgraded", "of its own"])
def postgres(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedPostgres]:
    directory = tmp_path_factory.mktemp(request.param, numbered=True)
    if unprivileged() is not None:
        directory.chmod(0o755)
        for parent in directory.parents[:2]:
            parent.chmod(0o755)
    if request.param != "new":
        make_by_hand(directory, "waterclock" if request.param == "upgraded" else "postgres")
    running = embedded(directory)
    server = Server(running)
    server.start()
    try:
        if request.param == "upgraded":
            run_as_before(running)
            server.stop()
            (directory / "postgres" / "roles").unlink()
            running.prepare()
            server.start()
        if request.param == "of its own":
            run_script(running)
        yield running
    finally:
        server.stop()


def run_as_before(running: EmbeddedPostgres) -> None:
    import asyncio

    async def fill() -> None:
        async with session(running.url) as owner:
            assert await owner.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            await migrate(owner, "waterclock")
            await owner.execute(
                "CREATE TABLE waterclock.kept (n serial PRIMARY KEY); INSERT INTO waterclock.kept DEFAULT VALUES"
            )
            await owner.execute(
                "CREATE FUNCTION waterclock.one(a int) RETURNS int LANGUAGE sql AS 'SELECT 1'"
            )
            await owner.execute("CREATE TYPE waterclock.mood AS ENUM ('good')")

    asyncio.run(fill())


def run_script(running: EmbeddedPostgres) -> None:
    """As the image of `docker-compose.yml` does on a new volume."""
    superuser = running.url.replace("//waterclock:", "//postgres:")
    passwords = (f"owner_password={running._password}", f"reader_password={running._reader_password}")
    subprocess.run(
        [str(running._binary("psql")), "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", superuser]
        + [word for password in passwords for word in ("--set", password)]
        + ["--file", str(ROOT / "deploy" / "postgres" / "roles.sql")],
        check=True,
    )


async def test_the_owner_is_no_superuser_and_can_do_its_work(postgres: EmbeddedPostgres) -> None:
    async with session(postgres.url) as owner:
        role = await owner.fetchrow("SELECT * FROM pg_roles WHERE rolname = current_user")
        assert role is not None
        assert not any((role["rolsuper"], role["rolcreaterole"], role["rolreplication"], role["rolcreatedb"]))
        await migrate(owner, "waterclock")
        await migrate(owner, "waterclock_next")  # as a rebuild does
        await owner.execute(
            "ALTER SCHEMA waterclock_next RENAME TO waterclock_old; DROP SCHEMA waterclock_old CASCADE"
        )
        theirs = await owner.fetch(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'waterclock' AND pg_get_userbyid(c.relowner) <> 'waterclock'"
        )
        assert theirs == []
        if await owner.fetchval("SELECT to_regclass('waterclock.kept')"):
            await owner.execute("INSERT INTO waterclock.kept DEFAULT VALUES; DROP FUNCTION waterclock.one")
            assert await owner.fetchval("SELECT count(*) FROM waterclock.kept") >= 2
            await owner.execute("ALTER TYPE waterclock.mood ADD VALUE IF NOT EXISTS 'bad'")


@pytest.mark.parametrize(
    "attack",
    [
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "SELECT pg_read_file('postgresql.conf')",
        "CREATE ROLE another SUPERUSER",
        "ALTER ROLE waterclock SUPERUSER",
        "SELECT rolpassword FROM pg_authid",
        "ALTER SYSTEM SET fsync = off",
    ],
)
async def test_the_owner_gets_no_further_than_its_database(postgres: EmbeddedPostgres, attack: str) -> None:
    async with session(postgres.url) as owner:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await owner.execute(attack)


async def test_nobody_logs_in_as_the_superuser(postgres: EmbeddedPostgres) -> None:
    owner = postgres.url.partition("//")[2].partition("@")[0]
    for password in (owner.partition(":")[2], "", "postgres", "the-password-of-before"):
        with pytest.raises(asyncpg.PostgresError):
            await asyncpg.connect(postgres.url.replace(owner, "postgres:x"), password=password or "x")


async def test_a_reader_reads_what_is_there_and_what_comes(postgres: EmbeddedPostgres) -> None:
    async with session(postgres.url) as owner, session(postgres.reader_url) as reader:
        await migrate(owner, "waterclock")
        await owner.execute("CREATE TABLE IF NOT EXISTS waterclock.later (n int)")
        assert await reader.fetchval("SELECT count(*) FROM waterclock.job_runs") == 0
        assert await reader.fetch("SELECT job_id FROM waterclock.job_attempts") == []
        assert await reader.fetchval("SELECT count(*) FROM waterclock.later") == 0
        for setting, value in (
            ("statement_timeout", "1min"),
            ("idle_in_transaction_session_timeout", "1min"),
        ):
            assert await reader.fetchval(f"SHOW {setting}") == value


@pytest.mark.parametrize(
    "attack",
    [
        "SELECT pg_advisory_lock(8602082057870308459)",
        "SELECT pg_try_advisory_lock_shared(1, 2)",
        "SELECT lo_create(0)",
        "SELECT pg_logical_emit_message(false, 'a', repeat('x', 1000))",
        "INSERT INTO waterclock.projection_state DEFAULT VALUES",
        "CREATE TABLE waterclock.mine (n int)",
        "CREATE TABLE public.mine (n int)",
        "CREATE TEMP TABLE mine (n int)",
        "CREATE SCHEMA mine",
        "SET ROLE waterclock",
        "LOCK TABLE waterclock.job_definitions IN ACCESS EXCLUSIVE MODE",
    ],
)
async def test_a_reader_does_nothing_else_even_where_it_lifts_its_own_settings(
    postgres: EmbeddedPostgres, attack: str
) -> None:
    async with session(postgres.url) as owner:
        await migrate(owner, "waterclock")
    async with session(postgres.reader_url) as reader:
        await reader.execute("SET default_transaction_read_only = off")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with reader.transaction():
                await reader.execute(attack)


async def test_starting_again_changes_nothing(tmp_path: Path) -> None:
    first = embedded(tmp_path)
    first.prepare()
    url, reader = first.url, first.reader_url
    (tmp_path / "postgres" / "roles").unlink()  # as a kill before the last step leaves it
    again = embedded(tmp_path)
    again.prepare()
    assert (again.url, again.reader_url) == (url, reader)
    shutil.rmtree(tmp_path / "postgres", ignore_errors=True)
