"""People: who may sign in, and in which tenants to look for what they may do."""

from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, select
from sqlalchemy.dialects.postgresql import insert

from service.contract.names import check_name
from service.grants.tables import person, person_tenant
from service.kit.database import Directory
from service.kit.errors import Code, Refusal

EMAIL_MOST = 254
"""RFC 5321, section 4.5.3.1.3, less the angle brackets."""
_NEVER = frozenset('<>()[],;:\\" ')


async def add_person(tx: Directory, email: str, name: str) -> UUID:
    """The person of this address, made now where there is none; a known person keeps the name.

    Raises:
        Refusal: INVALID_ARGUMENT or TEXT_REJECTED for what cannot stand in a commit.
    """
    values = {"id": uuid4(), "email": check_email(email), "name": check_name(name, "name")}
    await tx.execute(insert(person).values(**values).on_conflict_do_nothing(index_elements=["email"]))
    found: UUID = (await find_person(tx, email)).id
    return found


async def find_person(tx: Directory, email: str) -> Row[Any]:
    """The person of this address. Raises NOT_FOUND."""
    row = (await tx.execute(select(person).where(person.c.email == check_email(email)))).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is nobody with this address.")
    return row


async def let_look(tx: Directory, person_id: UUID, tenant: UUID) -> None:
    """Let the person's sessions look into a tenant. It gives no right there."""
    statement = insert(person_tenant).values(person=person_id, tenant=tenant)
    await tx.execute(statement.on_conflict_do_nothing())


def check_email(email: str) -> str:
    """The address in small letters, fit for a commit's committer line.

    Raises:
        Refusal: INVALID_ARGUMENT where it is none.
    """
    given = email.strip().lower()
    local, _, host = given.rpartition("@")
    plain = given.isascii() and given.isprintable() and not _NEVER & set(given)
    if not plain or not local or "@" in local or not host.strip(".") or len(given) > EMAIL_MOST:
        raise Refusal(Code.INVALID_ARGUMENT, "This is no e-mail address.", field="email", limit=EMAIL_MOST)
    return given
