#!/bin/sh
# Run once, by the image, on a new volume: an owner that is no superuser, a reader, and nobody without TLS.
set -eu
psql --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres --command "CREATE DATABASE waterclock"
psql --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname waterclock \
    --set owner_password="$OWNER_PASSWORD" --set reader_password="$READER_PASSWORD" --file /etc/waterclock/roles.sql
sed -i 's/^host all all all /hostssl all all all /' "$PGDATA/pg_hba.conf"
