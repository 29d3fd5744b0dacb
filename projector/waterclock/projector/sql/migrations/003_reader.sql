-- A role that may read everything here and nothing else: GRANT waterclock_reader TO grafana.
-- A role belongs to the whole server, so it may be there already; without the right to make one, an
-- administrator has to, and until then there is nobody to grant to.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'waterclock_reader') THEN
        CREATE ROLE waterclock_reader NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN RAISE WARNING 'cannot create the role waterclock_reader: create it by hand and grant it SELECT';
END
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'waterclock_reader') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO waterclock_reader', current_schema());
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO waterclock_reader', current_schema());
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT ON TABLES TO waterclock_reader', current_schema());
    END IF;
END
$$;
