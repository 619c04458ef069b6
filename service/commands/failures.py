"""What can go wrong through no fault of the program, each in one sentence with a stable code."""

from socket import gaierror

from alembic.util import CommandError
from asyncpg.exceptions import ClientConfigurationError
from sqlalchemy.exc import ArgumentError, DBAPIError

from service.kit.errors import Refusal
from service.kit.postgres import PostgresUnavailable
from service.settings import BadSetting
from service.up.place import UpRefused

# SQLSTATE, by its first characters; PostgreSQL, appendix A.
DATABASE = {
    "08": ("database_unreachable", "The database cannot be reached."),
    "53": ("database_full", "The database has no room for this: no connection, no memory or no disk."),
    "57P": ("database_unreachable", "The database is starting or stopping."),
    "28": ("database_login_refused", "The database refuses this login."),
    "3D": ("no_such_database", "There is no such database on the server."),
    "42501": ("database_forbids", "The login of DATABASE_URL must be a member of the role that this needs."),
    "42P01": ("schema_missing", "The database has not the schema of this program: run `placet migrate`."),
    "42703": ("schema_missing", "The database has not the schema of this program: run `placet migrate`."),
    "22023": ("schema_missing", "The database has not the roles of this program: run `placet migrate`."),
    "55P03": ("database_busy", "Another program holds what this needs; try again in a moment."),
}
OWN: tuple[tuple[type[Exception], str, str], ...] = (
    (BadSetting, "bad_setting", "{}"),
    (PostgresUnavailable, "postgres_unavailable", "{}"),
    (CommandError, "schema_unknown", "The database's schema is of another release than this program: {}."),
    (ArgumentError, "bad_setting", "DATABASE_URL is no database URL."),
    (ClientConfigurationError, "bad_setting", "DATABASE_URL is no database URL."),
    (ConnectionError, "database_unreachable", "The database cannot be reached."),
    (gaierror, "database_unreachable", "The database's host is not known."),
)


def explain(error: Exception) -> str | None:
    """A sentence for the person at the terminal, or None for what is a mistake of the program."""
    found = _known(error)
    if found is None:
        return None
    code, sentence = found
    return f"{sentence} [{code}]"


def _known(error: Exception) -> tuple[str, str] | None:
    if isinstance(error, Refusal):
        return error.code.value.name, error.message
    if isinstance(error, UpRefused):
        return error.code, str(error)
    for kind, code, sentence in OWN:
        if isinstance(error, kind):
            return code, sentence.format(error)
    return _of_the_database_or_system(error)


def _of_the_database_or_system(error: Exception) -> tuple[str, str] | None:
    original = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(original, "sqlstate", None)
    if isinstance(state, str):
        return next((DATABASE[key] for key in DATABASE if state.startswith(key)), None)
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return "system_refuses", f"The system refuses: {error.strerror or error}{where}."
    return None
