#!/bin/sh
# Runs once, when PostgreSQL makes its data directory: logins for web, writer and notifier, which can become nobody else.
set -eu
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
	--set=app="$(cat /run/secrets/app_password)" --set=writer="$(cat /run/secrets/writer_password)" \
	--set=notifier="$(cat /run/secrets/notifier_password)" <<'SQL'
CREATE ROLE placet_app LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB PASSWORD :'app';
CREATE ROLE placet_writer LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB PASSWORD :'writer';
CREATE ROLE placet_notifier LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB PASSWORD :'notifier';
SQL
