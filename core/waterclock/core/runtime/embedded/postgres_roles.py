"""Who is who in the embedded Postgres, and the SQL that makes it so, on a new cluster and on one of the version before.

postgres            superuser; has no password, so nobody can log in as it. `postgres --single` needs none
waterclock          owns the database and all that is in it; not more
waterclock_reader   may read all of it; nobody logs in as this, it is granted
reader              logs in to read: the URL `database_reader` of connection.json

In the version before, `waterclock` was the superuser that a cluster begins with. That one cannot be made less, so it is
given another name, and what it owns a new owner.
"""

SUPERUSER = "postgres"
OWNER = "waterclock"
READER = "reader"
DATABASE = "waterclock"

LAYOUT = "1"
"""Changes when the statements below do: then they are run again. Each may be."""

_READERS = "waterclock_reader"
_OURS = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
_BOOTSTRAP = 10
"""The id of the superuser that a cluster begins with."""

_READER_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "5s",
}
_HARMFUL = (
    "^(pg_(try_)?advisory_.*|lo_(creat|create|from_bytea|put|import|export)|lowrite|pg_logical_emit_message)$"
)
"""Functions that everybody may call by default, and with which a reader could hold up a migration or fill the disk."""


def statements(owner_password: str, reader_password: str, *, create_databases: bool) -> list[str]:
    """One line each, as `postgres --single` takes them, to be run in the database."""
    databases = "CREATEDB" if create_databases else "NOCREATEDB"
    plain = "NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS"
    return [
        "BEGIN",
        f"UPDATE pg_authid SET rolname = '{SUPERUSER}' WHERE oid = {_BOOTSTRAP} AND rolname = '{OWNER}'",
        *(_ensure_role(role) for role in (OWNER, _READERS, READER)),
        f"ALTER ROLE {OWNER} LOGIN {databases} {plain} PASSWORD '{owner_password}'",
        f"ALTER ROLE {_READERS} NOLOGIN NOCREATEDB {plain}",
        f"ALTER ROLE {READER} LOGIN NOCREATEDB {plain} CONNECTION LIMIT 20 PASSWORD '{reader_password}'",
        *(f"ALTER ROLE {READER} SET {name} = '{value}'" for name, value in _READER_SETTINGS.items()),
        f"GRANT {_READERS} TO {OWNER}, {READER}",
        f"ALTER ROLE {SUPERUSER} PASSWORD NULL",
        f"ALTER DATABASE {DATABASE} OWNER TO {OWNER}",
        f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC",
        f"GRANT CONNECT ON DATABASE {DATABASE} TO {_READERS}",
        *_change_owners(),
        _for_each(
            f"SELECT n.nspname FROM pg_default_acl d JOIN pg_namespace n ON n.oid = d.defaclnamespace"
            f" WHERE d.defaclrole = {_BOOTSTRAP} AND {_OURS}",
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} IN SCHEMA %1$I GRANT SELECT ON TABLES TO {_READERS}",
        ),
        *_keep_from_all_but_the_owner(),
        "COMMIT",
    ]


def _ensure_role(name: str) -> str:
    return (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') THEN CREATE ROLE {name};"
        " END IF; END $$"
    )


def _change_owners() -> list[str]:
    """Of everything that is not Postgres's own. What belongs to a table (its indexes, its sequences) follows it."""
    relations = (
        f"SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relowner = {_BOOTSTRAP} AND {_OURS} AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')"
        " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i')"
        " AND c.relkind = 'S')"
    )
    routines = (
        f"SELECT n.nspname, p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        f" WHERE p.proowner = {_BOOTSTRAP} AND {_OURS}"
    )
    types = (
        f"SELECT n.nspname, t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace"
        f" WHERE t.typowner = {_BOOTSTRAP} AND {_OURS} AND t.typtype IN ('e', 'd')"
    )
    schemas = f"SELECT n.nspname FROM pg_namespace n WHERE n.nspowner = {_BOOTSTRAP} AND {_OURS}"
    return [
        _for_each(relations, f"ALTER TABLE %1$I.%2$I OWNER TO {OWNER}"),
        _for_each(routines, f"ALTER ROUTINE %2$s OWNER TO {OWNER}"),
        _for_each(types, f"ALTER TYPE %1$I.%2$I OWNER TO {OWNER}"),
        _for_each(f"{schemas} AND n.nspname <> 'public'", f"ALTER SCHEMA %1$I OWNER TO {OWNER}"),
    ]


def _keep_from_all_but_the_owner() -> list[str]:
    harmful = (
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        f" WHERE n.nspname = 'pg_catalog' AND p.proname ~ '{_HARMFUL}'"
    )
    return [
        _for_each(harmful, "REVOKE EXECUTE ON FUNCTION %1$s FROM PUBLIC"),
        _for_each(harmful, f"GRANT EXECUTE ON FUNCTION %1$s TO {OWNER}"),
    ]


def _for_each(query: str, statement: str) -> str:
    """A statement for each row of a query, with its first two columns filled in."""
    return (
        f"DO $$ DECLARE found record; BEGIN FOR found IN SELECT a.* FROM ({query}) AS a LOOP"
        f" EXECUTE (SELECT format('{statement}', v[1], v[2]) FROM"
        " (SELECT array_agg(value) AS v FROM json_each_text(row_to_json(found))) AS columns);"
        " END LOOP; END $$"
    )


def script() -> str:
    """The same for a server of your own (`deploy/postgres/roles.sql`), whose superuser `postgres` runs it with psql."""
    lines = statements("owner_password", "reader_password", create_databases=False)
    kept = [line for line in lines if not line.startswith("UPDATE pg_authid")]
    text = "".join(f"{line};\n" for line in kept)
    for password in ("owner_password", "reader_password"):
        text = text.replace(f"'{password}'", f":'{password}'")
    return f"-- Made by `python -m waterclock.core.runtime.embedded.postgres_roles`.\n{text}"


if __name__ == "__main__":
    print(script(), end="")
