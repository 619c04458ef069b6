#!/bin/sh
# Runs once, when PostgreSQL makes its data directory: logins for web and writer, which can become nobody else.
set -eu
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
	--set=app="$(cat /run/secrets/app_password)" --set=writer="$(cat /run/secrets/writer_password)" <<'SQL'
CREATE ROLE placet_app LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB PASSWORD :'app';
CREATE ROLE placet_writer LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB PASSWORD :'writer';
SQL
